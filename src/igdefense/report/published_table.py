"""What the paper published for the defenses on a page, on its own base models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from igdefense.paper.counterparts import accuracy, chosen, counterparts, tables_for
from igdefense.report.exhibit import Exhibit

COLUMNS = ("clean", "AA", "IW-WC")


@dataclass(frozen=True)
class PublishedTable:
    """A row for each base model of the paper, a column for each run that has a counterpart."""

    runs: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]  # accuracies in %, in the order of COLUMNS

    @classmethod
    def of(cls, exhibits: Sequence[Exhibit]) -> "PublishedTable | None":
        """None where the paper has nothing on the same data at the same eps."""
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for e in exhibits:
            names = tables_for(e.data.class_names, e.eps) if e.data is not None else ()
            rows = counterparts(e.kind, names) if e.kind else {}
            if rows:
                found[e.name] = rows
        bases = dict.fromkeys(base for rows in found.values() for base in rows)
        if not bases:
            return None
        return cls(
            tuple(found),
            tuple(
                (base, tuple(_cell(rows.get(base)) for rows in found.values())) for base in bases
            ),
        )


def published_for(exhibits: Sequence[Exhibit], spec: str) -> Mapping[str, Mapping[str, float]]:
    """The accuracies of one published base model, to stand in the cells of the table."""
    found = {}
    for e in exhibits:
        row = chosen(spec, e.kind or "")
        names = ("clean", *(name for name, _ in e.verdicts), "IW-WC")
        known = {name: accuracy(row, name) for name in names} if row else {}
        found[e.name] = {name: value for name, value in known.items() if value is not None}
    return found


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    values = (row.get(name) for name in COLUMNS)
    return " / ".join("-" if value is None else f"{value:.2f}" for value in values)
