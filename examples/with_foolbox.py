"""foolbox takes a defense for a PyTorchModel."""

import foolbox

import igdefense as igd

model = igd.load_model("embedded")
ranking = igd.leave_one_out(model, igd.load_data("embedded:probe")[:100], layer="layer4")
defense = igd.defend(model, ranking, keep=16)

test = igd.load_data("embedded:test")[:4]
seen = foolbox.PyTorchModel(defense, bounds=(0, 1), device="cpu")
attack = foolbox.attacks.LinfPGD(steps=5)
_, x, broken = attack(seen, test.images, test.labels, epsilons=8 / 255)

assert (x - test.images).abs().max() <= 8 / 255 + 1e-6
print(f"PGD breaks {broken.sum()} of {len(test)} on the draws it met")
