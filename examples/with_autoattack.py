"""pyautoattack attacks a defense as it attacks any model."""

import pyautoattack

import igdefense as igd

model = igd.load_model("embedded")
ranking = igd.leave_one_out(model, igd.load_data("embedded:probe")[:100], layer="layer4")
defense = igd.defend(model, ranking, keep=16)  # its noise has a generator of its own

test = igd.load_data("embedded:test")[:4]
attack = pyautoattack.AutoAttack(
    defense, eps=8 / 255, seed=0, version="custom", attacks=["apgd-ce", "square"]
)
attack.apgd.n_iter, attack.apgd.n_restarts = 3, 1  # a taste: leave these two lines out
attack.square.n_queries = 10
x, _ = attack.run_standard_evaluation(test.images, test.labels)

assert (x - test.images).abs().max() <= 8 / 255 + 1e-6
right = (defense(x).argmax(1) == test.labels).sum()
print(f"{right} of {len(test)} stay right; `igd evaluate` says what that leaves out")
