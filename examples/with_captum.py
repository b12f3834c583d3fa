"""captum attributes a defended prediction to the neurons of a layer."""

import torch
from captum.attr import LayerConductance

import igdefense as igd

model = igd.load_model("embedded")
ranking = igd.leave_one_out(model, igd.load_data("embedded:probe")[:100], layer="layer4")
defense = igd.defend(model, ranking, keep=16)

images = igd.load_data("embedded:test").images[:4]
predicted = defense(images).argmax(1)
conductance = LayerConductance(defense, model.layer4)
neurons = conductance.attribute(images, target=predicted, n_steps=8).sum((2, 3))

kept = ranking.masks(16)[predicted].bool()
share = neurons.abs()[kept].sum() / neurons.abs().sum()
assert neurons.shape == kept.shape
assert torch.isfinite(neurons).all()
print(f"{share:.0%} of the attribution is on the neurons that the defense keeps")
