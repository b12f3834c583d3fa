"""A3, relaxed temperature: the defense's own answers, with a pseudo-label one can climb.

Why: the pseudo-label is a softmax at temperature 0.01. Its derivative is 4e-6 where two classes
are 0.17 apart and exactly 0 in single precision beyond 1.1, so that on most images no gradient
reaches x through the first pass: attacks see a defense whose mask never changes.

What is differentiated: forward, the defense, bit for bit. Backward, the pseudo-label is taken for
softmax(z / t) with a larger t (a straight-through estimate: BPDA, arXiv:1802.00420), so the
gradient says in which direction the mask would turn. Averaged over a few draws of the noise.

What it would show: images that fall here and stood under the very same attack on the defense
itself stood by vanishing gradients.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from igdefense.attacks.apgd import APGD
from igdefense.attacks.suites import Budget, Column
from igdefense.attacks.threat import Linf
from igdefense.defenses.ig_defense import IGDefense
from igdefense.expert.variants import without_mask
from igdefense.models.fingerprint import hash_text, identity
from igdefense.randomness import Key
from igdefense.types import Images, Logits

TEMPERATURES = (0.1, 1.0)


class RelaxedDefense(nn.Module):
    """IG-Defense forward; backward, the pseudo-label of another temperature."""

    def __init__(self, defense: IGDefense, temperature: float) -> None:
        super().__init__()
        self.defense, self.temperature = defense, temperature
        self.random = defense.random

    def shared(self, images: Images) -> Tensor | None:
        return self.defense.shared(images)

    def forward(
        self, images: Images, keys: Sequence[Key] | None = None, shared: Tensor | None = None
    ) -> Logits:
        first, state = self.defense._first_pass(images, keys, shared)
        hard = self.defense.guess(first.detach())
        soft = (first / self.temperature).softmax(1)
        guess = hard + (soft - soft.detach())  # the difference is 0, and has a gradient
        return self.defense.answer(state, guess)

    def identity(self) -> str:
        return hash_text(type(self).__name__, identity(self.defense), self.temperature)


@dataclass(frozen=True, kw_only=True)
class Relaxed:
    """The defense with its pseudo-label relaxed in the backward pass."""

    temperature: float

    def why_not(self, defense: nn.Module) -> str | None:
        return without_mask(defense)

    def __call__(self, defense: nn.Module, base: nn.Module) -> nn.Module:
        assert isinstance(defense, IGDefense)
        return RelaxedDefense(defense, self.temperature)


def columns(threat: Linf, budget: Budget) -> tuple[Column, ...]:
    attack = APGD(threat=threat, loss="cw", steps=budget.steps, best="strict")
    return tuple(
        Column(
            name=f"relaxed-{temperature:g}",
            attack=attack,
            target="surrogate",
            surrogate=Relaxed(temperature=temperature),
            samples=budget.expert_draws,
            group="expert",
            rank=5,
        )
        for temperature in TEMPERATURES
    )
