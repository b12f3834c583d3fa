"""A4, target-mask joint loss: win both passes at once, for one wrong class after another.

Why: to be classified as t through the mask of t, an image needs two things. The noisy first pass
must guess t, and the second pass, with only the neurons of t left, must answer t as well. Each
alone is easy and useless: a flipped guess whose mask still answers y, or a second pass that would
answer t under a mask that never comes. An attack on the defense's output sees neither, for the
guess is a step function.

What is differentiated: min( mean_v z_t - z_y at x + v , h_t - h_y at x under the mask m_t ), where
z is the first pass and h the second. The mask is given, so there is no softmax and no temperature
in the gradient; the minimum works on whichever of the two lags behind. A run for each target; the
deployed defense chooses among their points.

What it would show: images that fall here are lost through the mechanism itself, the wrong class's
own important neurons.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from igdefense.attacks.losses import Loss, Losses, targeted_cw
from igdefense.attacks.objective import likeliest, mean_logits
from igdefense.attacks.suites import Budget, Column
from igdefense.attacks.threat import Linf
from igdefense.attacks.views import Told, View
from igdefense.defenses.ig_defense import IGDefense
from igdefense.expert.every_target import Aim, EveryTarget
from igdefense.expert.variants import variant, without_mask
from igdefense.models.fingerprint import hash_text, identity
from igdefense.randomness import Key
from igdefense.types import Images, Labels, Logits


class BothPasses(nn.Module):
    """The first pass's logits, and beside them the second's under the mask of a given class."""

    def __init__(self, defense: IGDefense) -> None:
        super().__init__()
        self.defense, self.random = defense, defense.random

    def forward(self, images: Images, keys: Sequence[Key] | None, classes: Labels) -> Logits:
        """(images, 2 x classes): z, then h."""
        first, state = self.defense._first_pass(images, keys)
        second = self.defense.answer(state, self.defense.sure(classes))
        return torch.cat([first, second], dim=1)

    def identity(self) -> str:
        return hash_text(type(self).__name__, identity(self.defense))


@dataclass(frozen=True, kw_only=True)
class Routes:
    """Both passes of the defense, with this many noisy copies in the first."""

    samples: int

    def why_not(self, defense: nn.Module) -> str | None:
        return without_mask(defense)

    def __call__(self, defense: nn.Module, base: nn.Module) -> nn.Module:
        again = variant(defense, samples=self.samples)
        assert isinstance(again, IGDefense)
        return BothPasses(again)


class JointMask(EveryTarget):
    """APGD on the smaller of the two margins of `BothPasses`, towards each target."""

    def plan(self, view: View, images: Images, labels: Labels) -> tuple[Aim, Tensor]:
        def aim(left: Tensor, goal: Labels) -> tuple[View, Loss]:
            return Told(view[left], goal), partial(joint_margin, targets=goal)

        first = mean_logits(Told(view, labels), images).chunk(2, dim=1)[0]
        return aim, likeliest(first, labels, self.targets)


def joint_margin(both: Logits, labels: Labels, targets: Labels) -> Losses:
    """min(z_t - z_y, h_t - h_y)."""
    first, second = both.chunk(2, dim=1)
    return torch.minimum(targeted_cw(first, labels, targets), targeted_cw(second, labels, targets))


def columns(threat: Linf, budget: Budget) -> tuple[Column, ...]:
    return (
        Column(
            name="joint-mask",
            attack=JointMask(threat=threat, steps=budget.steps, targets=budget.targets),
            target="surrogate",
            surrogate=Routes(samples=budget.joint_samples),
            choices=budget.choices,
            group="expert",
            rank=5,
        ),
    )
