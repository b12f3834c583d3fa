"""The Adversarial Robustness Toolbox takes a defense for a PyTorchClassifier."""

import numpy as np
from art.attacks.evasion import ProjectedGradientDescentPyTorch
from art.estimators.classification import PyTorchClassifier
from torch import nn

import igdefense as igd

model = igd.load_model("embedded")
ranking = igd.leave_one_out(model, igd.load_data("embedded:probe")[:100], layer="layer4")
defense = igd.defend(model, ranking, keep=16)

test = igd.load_data("embedded:test")[:4]
images, labels = test.images.numpy(), test.labels.numpy()
classifier = PyTorchClassifier(
    defense,
    loss=nn.CrossEntropyLoss(),
    input_shape=images.shape[1:],
    nb_classes=10,
    clip_values=(0.0, 1.0),
    device_type="cpu",
)
settings = {"eps": 8 / 255, "eps_step": 2 / 255, "max_iter": 5, "verbose": False}
x = ProjectedGradientDescentPyTorch(classifier, **settings).generate(images, labels)

assert np.abs(x - images).max() <= 8 / 255 + 1e-6
right = (classifier.predict(x).argmax(1) == labels).sum()
print(f"{right} of {len(test)} stay right under PGD")
