"""A ranking of your own: any scores, classes x neurons; docs/add-a-ranking.md explains it."""

import torch

import igdefense as igd
from igdefense.models import weights_fingerprint
from igdefense.split import activations_of

model = igd.load_model("embedded")
probe = igd.load_data("embedded:probe", n=200)

# A neuron matters to a class as much as it is more active on its images than on the others.
with torch.no_grad():
    maps = activations_of(igd.split(model, "layer4").before(probe.images[:]))
activity = maps.mean((2, 3))
scores = torch.stack(
    [
        activity[probe.labels == c].mean(0) - activity[probe.labels != c].mean(0)
        for c in range(len(probe.class_names))
    ]
)
provenance = {"method": "contrast", "model": weights_fingerprint(model)}
mine = igd.Ranking("layer4", scores, provenance)
mine.save("contrast.safetensors")  # for igd defend, tune, explain, compare, evaluate --ranking

lo_ir = igd.leave_one_out(model, probe, layer="layer4")
print(igd.compare({"contrast": mine, "LO-IR": lo_ir}, ks=[16]).table())
print(igd.tune(model, mine, probe).table())
