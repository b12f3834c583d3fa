"""A8, rescaled cross-entropy: a softmax that never saturates.

Why: the cross-entropy of a confident network underflows: once the right class leads by some
twenty, softmax is 1 in single precision and the gradient is rounding noise. Defenses that sharpen
or enlarge their logits profit from this without being any more robust.

What is differentiated: the cross-entropy of the logits divided by the gap between the two largest,
taken for a constant; points are compared by their margin. Averaged over a few draws.

What it would show: images that fall here and stood under the plain cross-entropy stood by rounding.
It works for any defense.
"""

from igdefense.attacks.apgd import APGD
from igdefense.attacks.suites import Budget, Column
from igdefense.attacks.threat import Linf


def columns(threat: Linf, budget: Budget) -> tuple[Column, ...]:
    attack = APGD(threat=threat, loss="ce-rescaled", steps=budget.steps, best="strict")
    return (
        Column(
            name="rescaled-ce",
            attack=attack,
            samples=budget.expert_draws,
            group="expert",
            rank=5,
        ),
    )
