"""Outcome: one table or figure of the paper as we found it, beside what was published."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from igdefense.errors import OutputError
from igdefense.files import written_whole
from igdefense.paper.published import tables
from igdefense.verdicts.statistics import Share

FORMAT = "igdefense-outcome-1"
SOURCE = "arXiv:2409.15190"
PICTURE = "published as a picture only: no numbers to set beside these"


@dataclass(frozen=True)
class Change:
    """A change in % with its 95 % interval, over so many images."""

    percent: float
    low: float
    high: float
    images: int

    def __str__(self) -> str:
        if math.isnan(self.percent):
            return "no such image" if not self.images else "undefined"
        return f"{self.percent:+.1f} [{self.low:+.1f}, {self.high:+.1f}]"


Cell = Share | Change | float | str
Row = dict[str, Cell]


@dataclass(frozen=True)
class Outcome:
    """Rows of accuracies with intervals, or of other numbers, and how they came about."""

    name: str
    what: str
    settings: dict[str, Any]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def grid(self) -> tuple[tuple[str, ...], ...]:
        """A head and lines of text: our rows, then the published ones in the same columns."""
        theirs = tables().get(self.name)
        if theirs is None:
            return _grid(self.rows)
        base = {"base": str(self.settings.get("model", ""))}
        ours: list[dict[str, Any]] = [{"": "ours", **base, **row} for row in self.rows]
        return _grid([*ours, *({"": "published", "base": "", **row} for row in theirs.rows)])

    @property
    def about(self) -> str:
        """The settings in a line, without the one that the rows vary."""
        varied = set().union(*self.rows) | {"seconds"}
        parts = [f"{key} {value}" for key, value in self.settings.items() if key not in varied]
        seconds = self.settings.get("seconds")
        return ", ".join([*parts, *([f"took {seconds} s"] if seconds is not None else [])])

    @property
    def source(self) -> str:
        """Where the published rows are from."""
        theirs = tables().get(self.name)
        return f"published: {theirs.what}; {SOURCE}" if theirs else PICTURE

    def table(self) -> str:
        """Our rows and the published ones of the same table, in columns."""
        grid = self.grid
        widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
        lines = [
            "  ".join(f"{text:<{width}}" for text, width in zip(line, widths, strict=True)).rstrip()
            for line in grid
        ]
        head = [f"{self.name}: {self.what}", self.about, self.source, ""]
        return "\n".join([*head, *lines, *(f"* {note}" for note in self.notes)])

    def save(self, path: Path) -> None:
        """Write a JSON file with every number, its count and its interval."""
        rows = [{key: _plain(cell) for key, cell in row.items()} for row in self.rows]
        record: dict[str, Any] = {"format": FORMAT, "name": self.name, "what": self.what}
        record |= {"settings": self.settings, "rows": rows, "notes": list(self.notes)}
        with written_whole(path) as part:
            part.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> "Outcome":
        """Read what `save` wrote."""
        try:
            record = json.loads(Path(path).read_text())
            if record["format"] != FORMAT:
                raise ValueError(f"format {record['format']!r}")
            rows = tuple({str(k): _cell(v) for k, v in row.items()} for row in record["rows"])
            if not rows:
                raise ValueError("it has no rows")
            texts = (str(record["name"]), str(record["what"]))
            return cls(*texts, dict(record["settings"]), rows, tuple(map(str, record["notes"])))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise OutputError(f"{path} is not an outcome of `igd reproduce` ({error}).") from error


def _grid(rows: Any) -> tuple[tuple[str, ...], ...]:
    """One column for each key that some row has, those of words before those of numbers."""
    first: dict[str, Any] = {}
    for row in rows:
        first = row | first
    found = dict.fromkeys(key for row in rows for key in row)
    keys = tuple(sorted(found, key=lambda key: not isinstance(first[key], str)))
    return (keys, *(tuple(_text(row.get(key, "")) for key in keys) for row in rows))


def _text(cell: Any) -> str:
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _plain(cell: Cell) -> Any:
    if isinstance(cell, Share):
        return {"right": cell.count, "n": cell.total, "accuracy": cell.value, "95 %": cell.interval}
    if isinstance(cell, Change):
        known = not math.isnan(cell.percent)
        interval = [cell.low, cell.high] if known else None
        return {"change": cell.percent if known else None, "95 %": interval, "n": cell.images}
    return cell


def _cell(value: Any) -> Cell:
    if isinstance(value, dict) and "change" in value:
        low, high = value["95 %"] or (math.nan, math.nan)
        change = math.nan if value["change"] is None else float(value["change"])
        return Change(change, float(low), float(high), int(value["n"]))
    if isinstance(value, dict):
        share = Share(int(value["right"]), int(value["n"]))
        if not 0 <= share.count <= share.total or share.total < 1:
            raise ValueError(f"{share.count} of {share.total} images")
        return share
    if not isinstance(value, str | int | float):
        raise ValueError(f"a cell {value!r}")
    return value
