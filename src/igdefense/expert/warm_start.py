"""A13, warm starts: hand the points of A1 and A2 to the attacks on the defense itself.

Why: attacks on the defense start at random, deep inside the right class, where its gradients are
worst; transfers end near or behind the boundary, but never look at the defense. Together each does
what it can: the transfer brings x to where the pseudo-label is about to turn, and there the
softmax has a gradient again.

What is differentiated: the defense itself over the noise (`warm-eot`, any defense), the relaxed
one (`warm-relaxed`) and the joint loss of both passes (`warm-joint`), from the images of
`high-margin`, `noisy-t-cw` and `high-margin`. The first step is half of eps instead of twice, and
the start is one of the points to choose from.

What it would show: it should break what its start breaks, and more; if it breaks no more, the
transfers had already found what there is.
"""

from dataclasses import replace

from igdefense.attacks.apgd import APGD
from igdefense.attacks.suites import Budget, Column
from igdefense.attacks.threat import Linf
from igdefense.expert import high_margin, noisy_base
from igdefense.expert.joint_mask import JointMask, Routes
from igdefense.expert.relaxed import Relaxed


def columns(threat: Linf, budget: Budget) -> tuple[Column, ...]:
    (deep,) = high_margin.columns(threat, budget)
    noisy = noisy_base.columns(threat, budget)[-1]
    climbing = APGD(threat=threat, loss="cw", steps=budget.steps, best="strict")
    eot = Column(
        name="warm-eot",
        attack=climbing,
        samples=budget.expert_draws,
        start=deep,
        group="expert",
        rank=5,
    )
    relaxed = replace(
        eot,
        name="warm-relaxed",
        target="surrogate",
        surrogate=Relaxed(temperature=1.0),
        start=noisy,
    )
    joint = Column(
        name="warm-joint",
        attack=JointMask(threat=threat, steps=budget.steps, targets=budget.warm_targets),
        target="surrogate",
        surrogate=Routes(samples=budget.joint_samples),
        choices=budget.choices,
        start=deep,
        group="expert",
        rank=5,
    )
    return (eot, relaxed, joint)
