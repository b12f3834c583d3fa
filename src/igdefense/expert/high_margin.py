"""A2, high-margin base transfer: go as deep into each wrong class as the base model lets one.

Why: a scale-free loss (DLR), and an attack that stops at the first wrong point, leave x just
behind the base model's boundary, and the defense only has to be a little different from its base
to put it back. In the paper the transfers that maximise the bare margin leave less standing than
the targeted DLR does: deep points survive noise and mask, points at the boundary do not.

What is differentiated: z_t - z_y of the noiseless base model, for one target t after another. No
gradient of the defense is used, only its answers to a few queries, which choose among the points:
the target that most draws fall for, and of two alike the one of larger mean margin. The choice is
left to the deployed defense and not to noise on the base model: it costs ten queries a target, and
a mask moves the classes by unlike amounts.

What it would show: what it breaks, the defense's masked and noisy gradients were hiding, not
removing. It works for any defense that has a base model.
"""

from igdefense.attacks.suites import Budget, Column
from igdefense.attacks.threat import Linf
from igdefense.expert.every_target import EveryTarget


def columns(threat: Linf, budget: Budget) -> tuple[Column, ...]:
    attack = EveryTarget(threat=threat, steps=budget.steps, targets=budget.targets)
    return (
        Column(
            name="high-margin",
            attack=attack,
            target="base",
            choices=budget.choices,
            group="expert",
            rank=1,
        ),
    )
