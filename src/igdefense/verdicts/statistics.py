"""Intervals for shares of images."""

from dataclasses import dataclass

from scipy.stats import binomtest


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
        low, high = binomtest(self.count, self.total).proportion_ci(method="wilson")
        return float(low), float(high)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"
