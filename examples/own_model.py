"""Defend a model of your own: any nn.Module in eval mode, [0, 1] pixels in, logits out."""

import torch
from torch import nn

import igdefense as igd
from igdefense.models import Normalized

torch.manual_seed(0)
net = nn.Sequential(  # yours, with its weights loaded; it expects normalised input
    nn.Conv2d(3, 16, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.Conv2d(16, 32, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(32, 10),
)
model = Normalized(net, mean=(0.49, 0.48, 0.45), std=(0.25, 0.24, 0.26)).eval()
probe = igd.load_data("embedded:probe", n=200)  # or igd.Data(images, labels, class_names)

for layer in igd.layers(model, probe.images[:1]):
    print(layer)
ranking = igd.leave_one_out(model, probe, layer="model.3")
print(igd.tune(model, ranking, probe).table())

defense = igd.defend(model, ranking, keep=8)
print(defense(probe.images[:4]).argmax(1))
defense.save("defended")  # the class is yours, so loading needs the model:
assert igd.load_defense("defended", model).settings == defense.settings
