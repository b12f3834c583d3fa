"""torchattacks attacks a defense as it attacks any model."""

import torchattacks

import igdefense as igd

model = igd.load_model("embedded")
ranking = igd.leave_one_out(model, igd.load_data("embedded:probe")[:100], layer="layer4")
defense = igd.defend(model, ranking, keep=16)

test = igd.load_data("embedded:test")[:4]
attack = torchattacks.EOTPGD(defense, eps=8 / 255, alpha=2 / 255, steps=3, eot_iter=2)
x = attack(test.images, test.labels)

assert (x - test.images).abs().max() <= 8 / 255 + 1e-6
right = (defense(x).argmax(1) == test.labels).sum()
print(f"{right} of {len(test)} stay right under EOT-PGD")
