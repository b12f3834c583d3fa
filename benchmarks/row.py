"""Row: what was compared with what, the ratio, and the bar it should meet."""

from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class AtMost:
    """A bar for costs."""

    limit: float

    def holds(self, ratio: float) -> bool:
        return ratio <= self.limit

    def __str__(self) -> str:
        return f"<= {self.limit:.3g}"


@dataclass(frozen=True)
class AtLeast:
    """A bar for speed-ups."""

    limit: float

    def holds(self, ratio: float) -> bool:
        return ratio >= self.limit

    def __str__(self) -> str:
        return f">= {self.limit:.3g}"


@dataclass(frozen=True)
class Row:
    """One comparison: the median of the rounds' ratios, with the smallest and the largest."""

    what: str
    against: str
    ratio: float
    spread: tuple[float, float]
    bar: AtMost | AtLeast | None = None  # None where there is nothing to meet

    @classmethod
    def of(
        cls, what: str, against: str, ratios: list[float], bar: AtMost | AtLeast | None = None
    ) -> "Row":
        return cls(what, against, median(ratios), (min(ratios), max(ratios)), bar)

    @property
    def holds(self) -> bool | None:
        return None if self.bar is None else self.bar.holds(self.ratio)

    @property
    def verdict(self) -> str:
        return {True: "holds", False: "MISSED", None: ""}[self.holds]
