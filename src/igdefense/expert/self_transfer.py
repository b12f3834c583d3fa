"""A12, self-transfer: craft on an easier relative of the defense, show the points to the defense.

Why: an adversary who knows the defense can build it with other settings, and some of those have
better gradients than the one deployed. Attacks on Hedge Defense that were made on a version with
five steps instead of twenty took back all of its gain.

What is differentiated: relatives of IG-Defense, each with its pseudo-label relaxed to temperature
1 in the backward pass. `self-many` guesses from the mean of many noisy copies; `self-half` and
`self-double` keep half and twice as many neurons; `self-absolute` ranks by the size of the score
whatever its sign, `self-shuffled` keeps random neurons, and `self-other` those of another ranking
of the same model, CD-IR for LO-IR and the reverse, where the adversary has one. Of smoothing, and
of any other random defense, there is `self-many` only. A rival may offer a relative of its own by a
method `easier()` that returns it (`self-easier`).

What it would show: points that fool all relatives do not depend on which neurons are kept. If
`self-shuffled` breaks as much as the rest, the ranking adds nothing an attacker has to know.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from igdefense.attacks.apgd import APGD
from igdefense.attacks.suites import Budget, Column, Surrogate
from igdefense.attacks.threat import Linf
from igdefense.defenses.ig_defense import IGDefense
from igdefense.defenses.smoothing import Smoothed
from igdefense.expert.relaxed import RelaxedDefense
from igdefense.expert.variants import variant, without_mask
from igdefense.models.fingerprint import hash_text, identity
from igdefense.randomness import Key, seed_of
from igdefense.rankings.combined import absolute
from igdefense.rankings.controls import shuffled
from igdefense.rankings.ranking import Ranking
from igdefense.types import Images, Logits

OTHER_SEED = 97  # of the shuffled ranking; that of the control itself is the run's seed
SOFT = 1.0  # the temperature of the backward pass


class ManyDraws(nn.Module):
    """The mean logits of a random defense over several draws."""

    random = True

    def __init__(self, defense: nn.Module, draws: int) -> None:
        super().__init__()
        self.defense, self.draws = defense, draws

    def forward(self, images: Images, keys: Sequence[Key]) -> Logits:
        each = [[seed_of(key, "of many", i) for key in keys] for i in range(self.draws)]
        return torch.stack([self.defense(images, part) for part in each]).mean(0)

    def identity(self) -> str:
        return hash_text(type(self).__name__, identity(self.defense), self.draws)


@dataclass(frozen=True, kw_only=True)
class ManySamples:
    """The defense with this many noisy copies, or draws."""

    samples: int

    def why_not(self, defense: nn.Module) -> str | None:
        return None if getattr(defense, "random", False) else "the defense draws no noise"

    def __call__(self, defense: nn.Module, base: nn.Module) -> nn.Module:
        if isinstance(defense, IGDefense | Smoothed):
            return _softened(variant(defense, samples=self.samples))
        return ManyDraws(defense, self.samples)


@dataclass(frozen=True, kw_only=True)
class OtherKeep:
    """The defense that keeps so many times as many neurons."""

    times: float

    def why_not(self, defense: nn.Module) -> str | None:
        if isinstance(defense, IGDefense) and self._keep(defense.ranking, defense.keep) == (
            defense.keep
        ):
            return f"keeping {self.times:g} times as many of its neurons changes nothing"
        return without_mask(defense)

    def __call__(self, defense: nn.Module, base: nn.Module) -> nn.Module:
        return _softened(variant(defense, rekeep=self._keep))

    def _keep(self, ranking: Ranking, keep: int) -> int:
        return min(max(round(self.times * keep), 1), ranking.neurons)


@dataclass(frozen=True, kw_only=True)
class OtherRanking:
    """The defense with the neurons ranked by the size of their scores, or at random."""

    kind: Literal["absolute", "shuffled"]

    def why_not(self, defense: nn.Module) -> str | None:
        if isinstance(defense, IGDefense):
            masks = self._ranking(defense.ranking).masks(defense.keep)
            if torch.equal(masks, defense.ranking.masks(defense.keep)):
                return f"its {self.kind} ranking keeps the same neurons"
        return without_mask(defense)

    def __call__(self, defense: nn.Module, base: nn.Module) -> nn.Module:
        return _softened(variant(defense, rerank=self._ranking))

    def _ranking(self, own: Ranking) -> Ranking:
        if self.kind == "shuffled":
            return shuffled(own, OTHER_SEED)
        return absolute(own)


@dataclass(frozen=True, eq=False)
class GivenRanking:
    """The defense with a ranking that the adversary brings along, or the reason why it has none."""

    ranking: Ranking | str = "no other ranking was given"

    def __repr__(self) -> str:
        given = self.ranking
        named = f"{given!r}, {given.fingerprint}" if isinstance(given, Ranking) else given
        return f"{type(self).__name__}({named})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GivenRanking) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def why_not(self, defense: nn.Module) -> str | None:
        if not isinstance(defense, IGDefense):
            return without_mask(defense)
        if isinstance(self.ranking, str):
            return self.ranking
        own = defense.ranking
        if (self.ranking.layer, self.ranking.scores.shape) != (own.layer, own.scores.shape):
            return f"the other ranking is {self.ranking!r}, not of the same neurons"
        if torch.equal(self.ranking.masks(defense.keep), own.masks(defense.keep)):
            return "the other ranking keeps the same neurons"
        return None

    def __call__(self, defense: nn.Module, base: nn.Module) -> nn.Module:
        return _softened(variant(defense, rerank=self._for))

    def _for(self, own: Ranking) -> Ranking:
        assert isinstance(self.ranking, Ranking)
        return self.ranking if self.ranking.layer == own.layer else own


@dataclass(frozen=True)
class Easier:
    """The relative that a defense offers itself."""

    def why_not(self, defense: nn.Module) -> str | None:
        offered = callable(getattr(defense, "easier", None))
        return None if offered else "the defense offers no easier relative"

    def __call__(self, defense: nn.Module, base: nn.Module) -> nn.Module:
        relative: nn.Module = defense.easier()  # type: ignore[operator]
        return relative


def _softened(defense: nn.Module) -> nn.Module:
    return RelaxedDefense(defense, SOFT) if isinstance(defense, IGDefense) else defense


def columns(threat: Linf, budget: Budget, other: Ranking | str | None = None) -> tuple[Column, ...]:
    """`other` is the other ranking, or the reason why there is none."""
    relatives: dict[str, Surrogate] = {
        "self-many": ManySamples(samples=budget.surrogate_samples),
        "self-half": OtherKeep(times=0.5),
        "self-double": OtherKeep(times=2),
        "self-absolute": OtherRanking(kind="absolute"),
        "self-shuffled": OtherRanking(kind="shuffled"),
        "self-other": GivenRanking() if other is None else GivenRanking(other),
        "self-easier": Easier(),
    }
    attack = APGD(threat=threat, loss="cw", steps=budget.steps, best="strict")
    return tuple(
        Column(
            name=name,
            attack=attack,
            target="surrogate",
            surrogate=surrogate,
            group="expert",
            rank=5,
        )
        for name, surrogate in relatives.items()
    )
