"""Outcome: one table or figure of the paper as we found it, beside what was published."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from igdefense.errors import OutputError
from igdefense.files import written_whole
from igdefense.paper.published import tables
from igdefense.verdicts.statistics import Share

FORMAT = "igdefense-outcome-1"
Cell = Share | float | str


@dataclass(frozen=True)
class Outcome:
    """Rows of accuracies with intervals, or of other numbers, and how they came about."""

    name: str
    what: str
    settings: dict[str, Any]
    rows: tuple[dict[str, Cell], ...]
    notes: tuple[str, ...] = field(default=())

    def table(self) -> str:
        """Our rows, then the published ones of the same table."""
        s = self.settings
        lines = [f"{self.name}: {self.what}", ", ".join(f"{key} {s[key]}" for key in s)]
        lines += ["", *_grid(self.rows)]
        theirs = tables().get(self.name)
        if theirs:
            lines += ["", f"published ({theirs.what}; arXiv:2409.15190)", *_grid(theirs.rows)]
        else:
            lines += ["", "published as a picture only: no numbers to set beside these"]
        return "\n".join([*lines, *(f"* {note}" for note in self.notes)])

    def save(self, path: Path) -> None:
        """Write a JSON file with every number, its count and its interval."""
        rows = [{key: _plain(cell) for key, cell in row.items()} for row in self.rows]
        record: dict[str, Any] = {"format": FORMAT, "name": self.name, "what": self.what}
        record |= {"settings": self.settings, "rows": rows, "notes": list(self.notes)}
        with written_whole(path) as part:
            part.write_text(json.dumps(record, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> "Outcome":
        """Read what `save` wrote."""
        try:
            record = json.loads(Path(path).read_text())
            if record["format"] != FORMAT:
                raise ValueError(f"format {record['format']!r}")
            rows = tuple({k: _cell(v) for k, v in row.items()} for row in record["rows"])
            return cls(
                record["name"], record["what"], record["settings"], rows, tuple(record["notes"])
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OutputError(f"{path} is not an outcome of `igd reproduce` ({error}).") from error


def _grid(rows: tuple[dict[str, Any], ...]) -> list[str]:
    """Left-aligned columns, one for each key that some row has."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    texts = [[_text(row.get(key, "")) for key in keys] for row in rows]
    widths = [max(map(len, column)) for column in zip(keys, *texts, strict=True)]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(line, widths, strict=True)).rstrip()
        for line in [keys, *texts]
    ]


def _text(cell: Any) -> str:
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return f"{cell:g}" if isinstance(cell, float) else str(cell)


def _plain(cell: Cell) -> Any:
    if not isinstance(cell, Share):
        return cell
    return {"right": cell.count, "n": cell.total, "accuracy": cell.value, "95 %": cell.interval}


def _cell(value: Any) -> Cell:
    return Share(value["right"], value["n"]) if isinstance(value, dict) else value
