"""What the paper published, table by table (arXiv:2409.15190)."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from igdefense.errors import SettingError

FILE = Path(__file__).with_name("published.json")


@dataclass(frozen=True)
class Published:
    """One table: what it shows, and its rows with accuracies in %."""

    name: str
    label: str
    """The LaTeX label of the table it was transcribed from."""
    what: str
    rows: tuple[dict[str, Any], ...]

    def find(self, **wanted: Any) -> tuple[dict[str, Any], ...]:
        """The rows that have these values: `find(defense="LO-IR-50")`."""
        items = wanted.items()
        return tuple(row for row in self.rows if all(row.get(key) == v for key, v in items))


@cache
def tables() -> dict[str, Published]:
    """Every published table by its name, in the order of the paper."""
    record = json.loads(FILE.read_text())
    return {
        name: Published(name, table["label"], table["what"], tuple(table["rows"]))
        for name, table in record.items()
    }


def published(name: str) -> Published:
    """One published table: `published("rivals")`."""
    if name not in tables():
        raise SettingError(f"No published table {name!r}; there are {', '.join(tables())}.")
    return tables()[name]
