"""A11, feature attack: excite the wrong class's neurons, silence the right class's.

Why: the defense rests on the claim that attacks work by shifting activation from the neurons that
matter to the right class to those of another. This attack does just that, and nothing else.

What is differentiated: for each class c, the mean activation of the neurons its mask keeps, as if
it were a logit. Climbing the margin between t's neurons and y's needs neither pass, neither noise
nor temperature, nor the head of the network. A run for each target; the deployed defense chooses
among the points.

What it would show: whether the ranking picks neurons an attack has to go through. If the margins
of the masked features turn easily while the defense stands, the important neurons are not what
decides; if the defense falls with them, the mask points the attacker to the right place.
"""

from dataclasses import dataclass

from torch import nn

from igdefense.attacks.suites import Budget, Column
from igdefense.attacks.threat import Linf
from igdefense.defenses.ig_defense import IGDefense
from igdefense.expert.every_target import EveryTarget
from igdefense.expert.variants import without_mask
from igdefense.layers import neuron_axis
from igdefense.models.fingerprint import hash_text, identity
from igdefense.types import Images, Logits


class MaskedActivations(nn.Module):
    """The mean activation of each class's kept neurons, in place of its logit."""

    random = False

    def __init__(self, defense: IGDefense) -> None:
        super().__init__()
        self.defense = defense

    def forward(self, images: Images) -> Logits:
        activations = self.defense.activations(images)
        places = activations.movedim(neuron_axis(activations), 1).unsqueeze(-1).flatten(2)
        means = places.mean(2)
        masks = self.defense.masks.to(means)
        return means @ (masks / masks.sum(1, keepdim=True)).T

    def identity(self) -> str:
        return hash_text(type(self).__name__, identity(self.defense))


@dataclass(frozen=True)
class Features:
    """The activations that the defense's masks keep."""

    def why_not(self, defense: nn.Module) -> str | None:
        return without_mask(defense)

    def __call__(self, defense: nn.Module, base: nn.Module) -> nn.Module:
        assert isinstance(defense, IGDefense)
        return MaskedActivations(defense)


def columns(threat: Linf, budget: Budget) -> tuple[Column, ...]:
    return (
        Column(
            name="features",
            attack=EveryTarget(threat=threat, steps=budget.steps, targets=budget.targets),
            target="surrogate",
            surrogate=Features(),
            choices=budget.choices,
            group="expert",
            rank=5,
        ),
    )
