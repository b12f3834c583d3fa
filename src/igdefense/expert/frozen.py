"""A6, frozen noise: suppose the draws were known, then let their number grow.

Why: a random defense is hard to attack for two reasons that should not be mixed up: each query
answers a little differently, and the mask hides the gradient. With the draws held fixed the first
reason is gone.

What is differentiated: the defense on the same noise at every step, hence a deterministic network.
`frozen` knows one draw, `frozen-many` the mean logits of several; none of them is a draw the
verdict is made on.

What it would show: if `frozen` breaks little and `frozen-many` more, randomness was in the way; if
neither does, it is the gradient through the mask, and A3 to A5 have to say. It works for any
defense that takes its noise by keys.
"""

from dataclasses import dataclass

import torch
from torch import nn

from igdefense.attacks.apgd import APGD
from igdefense.attacks.suites import Budget, Column
from igdefense.attacks.threat import Linf
from igdefense.models.fingerprint import hash_text, identity
from igdefense.randomness import seed_of
from igdefense.types import Images, Logits


class KnownDraws(nn.Module):
    """The mean logits of a random defense over the same draws for every input."""

    random = False

    def __init__(self, defense: nn.Module, draws: int) -> None:
        super().__init__()
        self.defense, self.draws = defense, draws

    def forward(self, images: Images) -> Logits:
        keys = [seed_of("known draw", number) for number in range(self.draws)]
        return torch.stack([self.defense(images, [key] * len(images)) for key in keys]).mean(0)

    def identity(self) -> str:
        return hash_text(type(self).__name__, identity(self.defense), self.draws)


@dataclass(frozen=True, kw_only=True)
class Frozen:
    """The defense with this many known draws."""

    draws: int

    def why_not(self, defense: nn.Module) -> str | None:
        return None if getattr(defense, "random", False) else "the defense draws no noise"

    def __call__(self, defense: nn.Module, base: nn.Module) -> nn.Module:
        return KnownDraws(defense, self.draws)


def columns(threat: Linf, budget: Budget) -> tuple[Column, ...]:
    attack = APGD(threat=threat, loss="cw", steps=budget.steps, best="strict")
    return tuple(
        Column(
            name=name,
            attack=attack,
            target="surrogate",
            surrogate=Frozen(draws=draws),
            group="expert",
            rank=5,
        )
        for name, draws in (("frozen", 1), ("frozen-many", budget.expert_draws))
    )
