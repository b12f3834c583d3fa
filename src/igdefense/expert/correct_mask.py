"""A5, correct-mask route: lose the second pass while the guess stays right.

Why: some images hold on to their pseudo-label, and the attacks that try to turn it waste their
steps. They need not turn it: the second pass answers from the k neurons of the right class alone,
and may be fooled with those.

What is differentiated: h_j - h_y at x under the true class's mask, held fixed, for one wrong class
j after another. There is no first pass, hence no noise and no temperature: a deterministic network
with an honest gradient, as cheap as the base model. The deployed defense chooses among the points.

What it would show: whether a mask that is right makes the prediction robust. Together with A4 it
covers both ways an image can be lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from igdefense.attacks.suites import Budget, Column
from igdefense.attacks.threat import Linf
from igdefense.attacks.views import Told, View
from igdefense.defenses.ig_defense import IGDefense
from igdefense.expert.every_target import Aim, EveryTarget
from igdefense.expert.variants import without_mask
from igdefense.models.fingerprint import hash_text, identity
from igdefense.randomness import Key
from igdefense.types import Images, Labels, Logits


class GivenMask(nn.Module):
    """The second pass of IG-Defense, under the masks of given classes."""

    random = False

    def __init__(self, defense: IGDefense) -> None:
        super().__init__()
        self.defense = defense

    def forward(self, images: Images, keys: Sequence[Key] | None, classes: Labels) -> Logits:
        return self.defense.answer(self.defense.state_of(images), self.defense.sure(classes))

    def identity(self) -> str:
        return hash_text(type(self).__name__, identity(self.defense))


@dataclass(frozen=True)
class SecondPass:
    """The defense's second pass alone."""

    def why_not(self, defense: nn.Module) -> str | None:
        return without_mask(defense)

    def __call__(self, defense: nn.Module, base: nn.Module) -> nn.Module:
        assert isinstance(defense, IGDefense)
        return GivenMask(defense)


class CorrectMask(EveryTarget):
    """`EveryTarget` on a `GivenMask` that is told the true class."""

    def plan(self, view: View, images: Images, labels: Labels) -> tuple[Aim, Tensor]:
        return super().plan(Told(view, labels), images, labels)


def columns(threat: Linf, budget: Budget) -> tuple[Column, ...]:
    return (
        Column(
            name="correct-mask",
            attack=CorrectMask(threat=threat, steps=budget.steps, targets=budget.targets),
            target="surrogate",
            surrogate=SecondPass(),
            choices=budget.choices,
            group="expert",
            rank=5,
        ),
    )
