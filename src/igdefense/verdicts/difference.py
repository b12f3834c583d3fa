"""Is one accuracy higher than another on the same images? The difference, and how sure it is."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from igdefense.randomness import seed_of
from igdefense.verdicts.accuracies import Accuracies
from igdefense.verdicts.statistics import detectable, mcnemar_exact, paired_bootstrap, percent
from igdefense.verdicts.table import aligned

NOTHING = "no difference shown at this n"
HEADS = ["", "left %", "right %", "difference [95 %]", "McNemar p", "n could show"]


@dataclass(frozen=True)
class Difference:
    """Left minus right, with its paired bootstrap interval.

    `p` is McNemar's, where each image is right or wrong; `smallest` is the smallest difference that
    so many images could have shown (`statistics.detectable`) at the observed discordance.
    """

    what: str
    left: float
    right: float
    interval: tuple[float, float]
    p: float | None
    smallest: float
    images: int

    @property
    def value(self) -> float:
        return self.left - self.right

    @property
    def shown(self) -> bool:
        """Whether the interval leaves out 0, and McNemar's test agrees where there is one."""
        low, high = self.interval
        return not low <= 0 <= high and (self.p is None or self.p < 0.05)

    def cells(self) -> list[str]:
        """Its row of a table, in % and percentage points."""
        return [
            self.what,
            f"{100 * self.left:.1f}",
            f"{100 * self.right:.1f}",
            f"{100 * self.value:+.1f} {percent(self.interval)}",
            "" if self.p is None else f"{self.p:.2g}",
            f"{100 * self.smallest:.1f}",
            "" if self.shown else NOTHING,
        ]

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"difference": self.value, "shown": self.shown}


def difference(
    what: str,
    left: Bool[Tensor, " images"] | Float[Tensor, " images"],
    right: Bool[Tensor, " images"] | Float[Tensor, " images"],
    seed: int = 0,
) -> Difference:
    """Compare outcomes, or rates of being right, on the same images in the same order."""
    a, b = left.double(), right.double()
    p = None
    if left.dtype == right.dtype == torch.bool:
        p = mcnemar_exact(left, right)
    rng = np.random.default_rng(seed_of(seed, "bootstrap", what))
    smallest = detectable(len(a), float((a - b).square().mean()))
    means = float(a.mean()), float(b.mean())
    return Difference(what, *means, paired_bootstrap(a, b, rng), p, smallest, len(a))


def compare_accuracies(
    what: str, left: Accuracies, right: Accuracies, seed: int = 0
) -> list[Difference]:
    """On the judging draw; expected, by majority and against any draw too if one is random."""
    if not (left.random or right.random):
        return [difference(what, left.robust, right.robust, seed)]
    return [
        difference(f"{what}, 1 draw", left.robust, right.robust, seed),
        difference(f"{what}, expected", left.rates, right.rates, seed),
        difference(f"{what}, majority", left.most, right.most, seed),
        difference(f"{what}, any of", left.every, right.every, seed),
    ]


def differences_table(rows: Sequence[Difference], left: str, right: str) -> list[str]:
    """The lines of a table; no difference stands there without its interval."""
    heads = ["", f"{left} %", f"{right} %", *HEADS[3:], ""]
    return aligned([heads, *(row.cells() for row in rows)])
