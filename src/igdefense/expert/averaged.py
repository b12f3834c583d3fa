"""A7, averaged EoT: gradient, loss and choice of the point all over the same number of draws.

Why: AutoAttack's EoT averages gradients over draws but takes loss, step size and success from the
last draw alone, and stops at the first success: on a random defense that is a lucky draw, gone
when the image is judged. The paper's column keeps AutoAttack's meaning of success.

What is differentiated: the mean margin over `eot` draws of the defense as it is. A point counts as
misclassified if most draws say so, no image rests when it is broken once, and of all points the
one with the largest mean margin among the misclassified is handed back.

What it would show: how much of the paper's APGD+EoT number is a badly chosen point. Its budgets
are `steps` and `eot`: raise one at a time, and the accuracy should stop falling (the store keeps
what is done, so a curve costs its new points only). It works for any defense.
"""

from igdefense.attacks.apgd import APGD
from igdefense.attacks.suites import Budget, Column
from igdefense.attacks.threat import Linf


def columns(threat: Linf, budget: Budget) -> tuple[Column, ...]:
    attack = APGD(threat=threat, loss="cw", steps=budget.steps, best="strict")
    return (Column(name="averaged-eot", attack=attack, samples=budget.eot, group="expert", rank=6),)
