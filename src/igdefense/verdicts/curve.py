"""Curve: robust accuracy against how hard an attack tries."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from igdefense.verdicts.difference import NOTHING, Difference, difference
from igdefense.verdicts.record import verdict_from_json, verdict_to_json
from igdefense.verdicts.statistics import percent
from igdefense.verdicts.table import aligned, cells, heads
from igdefense.verdicts.verdict import Verdict


@dataclass(frozen=True, eq=False)
class Curve:
    """The verdict for each value of one budget, all else equal.

    An accuracy that still falls at the last value was measured with an attack that had not
    converged: it is too high. One that has levelled off may be too high all the same, if another
    attack goes further.
    """

    budget: str
    attack: str
    values: tuple[int, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def changes(self) -> list[Difference]:
        """Each value's accuracy minus that of the value before, on the same images."""
        return [
            difference(f"{self.budget} {value}", one.accuracies.rates, before.accuracies.rates)
            for value, (before, one) in zip(self.values[1:], pairwise(self.verdicts), strict=True)
        ]

    @property
    def lowest(self) -> float:
        """The lowest expected accuracy on the curve."""
        return min(verdict.expected.value for verdict in self.verdicts)

    def table(self) -> list[str]:
        """Its lines: accuracy for each value, and the change from the line above."""
        first = self.verdicts[0]
        shown = heads(first.accuracies, first.fresh.shape[1])[:2]
        rows = [[self.budget, *shown, "change [95 %]", ""]]
        changes = [None, *self.changes]
        for value, verdict, change in zip(self.values, self.verdicts, changes, strict=True):
            moved = f"{100 * change.value:+.1f} {percent(change.interval)}" if change else ""
            note = NOTHING if change and not change.shown else ""
            rows.append([str(value), *cells(verdict.accuracies)[:2], moved, note])
        n = len(first.robust)
        return [f"Robust accuracy against {self.budget}: {self.attack}, n = {n}", *aligned(rows)]

    def to_json(self) -> dict[str, Any]:
        points = zip(self.values, self.verdicts, strict=True)
        return {
            "budget": self.budget,
            "attack": self.attack,
            "points": [{"value": value} | verdict_to_json(verdict) for value, verdict in points],
            "changes": [change.to_json() for change in self.changes],
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "Curve":
        points = record["points"]
        values = tuple(int(point["value"]) for point in points)
        verdicts = tuple(
            verdict_from_json(f"{record['budget']}={point['value']}", point) for point in points
        )
        return cls(record["budget"], record["attack"], values, verdicts)
