"""Intervals for accuracies, and tests for the difference of two on the same images."""

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np
from jaxtyping import Float
from torch import Tensor

from igdefense.types import Outcomes

Z = NormalDist().inv_cdf(0.975)  # two-sided 5 %
POWER = NormalDist().inv_cdf(0.8)  # four times out of five


@dataclass(frozen=True)
class Share:
    """A share of `total` images with its 95 % Wilson interval."""

    count: int
    total: int

    @property
    def value(self) -> float:
        return self.count / self.total

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.value, self.total)

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} {percent(self.interval)}"


@dataclass(frozen=True)
class Mean:
    """An accuracy averaged over draws, with its standard deviation from draw to draw.

    Draws on one image are correlated, so the image is the unit: the 95 % interval is Wilson's for
    the mean and the number of images. A mean of values in [0, 1] varies at most as much as a share
    of equal size, so the interval is never too short for want of draws.
    """

    value: float
    std: float
    total: int

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.value, self.total)

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} ± {100 * self.std:.1f} {percent(self.interval)}"


def percent(interval: tuple[float, float]) -> str:
    """`[12.3, 45.6]`, in %."""
    return f"[{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]"


def wilson(value: float, total: int) -> tuple[float, float]:
    """Wilson's 95 % interval for a share `value` of `total` (J. Am. Stat. Assoc. 22, 1927)."""
    shrunk = 1 + Z * Z / total
    middle = (value + Z * Z / (2 * total)) / shrunk
    half = Z / shrunk * sqrt(value * (1 - value) / total + (Z / (2 * total)) ** 2)
    return max(0.0, middle - half), min(1.0, middle + half)


def paired_bootstrap(
    a: Float[Tensor, " images"],
    b: Float[Tensor, " images"],
    rng: np.random.Generator,
    resamples: int = 10_000,
) -> tuple[float, float]:
    """The 95 % percentile interval of mean(a - b), images drawn with replacement.

    There are few different values of a - b, so how often each is drawn is one multinomial number:
    the same distribution as drawing image by image, without a table of images by resamples.
    """
    values, counts = np.unique((a.double() - b.double()).numpy(), return_counts=True)
    drawn = rng.multinomial(len(a), counts / len(a), size=resamples)
    low, high = np.quantile(drawn @ values / len(a), [0.025, 0.975])
    return float(low), float(high)


def mcnemar_exact(a: Outcomes, b: Outcomes) -> float:
    """The two-sided p-value of McNemar's exact test: do a and b differ on the same images?

    Of the images on which they differ, half should favour either (Psychometrika 12, 1947).
    """
    from scipy.stats import binomtest  # noqa: PLC0415  (a third of the time every command starts in)

    only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
    return float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0


def detectable(n: int, discordant: float) -> float:
    """The smallest difference that n images could have shown: 5 % two-sided, 80 % power.

    McNemar's test with a share psi of discordant images finds a difference d if
    n = (z_a sqrt(psi) + z_b sqrt(psi - d^2))^2 / d^2 (Connor, Biometrics 43, 1987), so
    d = c sqrt(psi) with c = (z_a sqrt(n) + z_b sqrt(n - z_a^2 + z_b^2)) / (n + z_b^2). As d cannot
    exceed psi, no difference below c^2 can be found however few images are discordant.
    """
    inner = max(0.0, n - Z**2 + POWER**2)
    c = (Z * sqrt(n) + POWER * sqrt(inner)) / (n + POWER**2)
    return min(1.0, max(c * sqrt(discordant), c * c))
