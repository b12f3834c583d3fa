from typing import Any

import pytest

from igdefense.errors import SettingError
from igdefense.paper.published import Published, published, tables
from paper.latex import needs_latex, numbers_of

ONCE = "inference time"  # one number for all base models


def as_printed(table: Published) -> list[list[float]]:
    """The rows as the LaTeX has them: the base models of a defense side by side."""
    apart = ("row", "eps") if table.name != "rivals-extended" else ("base", "defense")
    rows: dict[tuple[Any, ...], list[float]] = {}
    for row in table.rows:
        key = tuple(row.get(name) for name in apart)
        if all(part is None for part in key):
            key = (row.get("defense", row.get("base")),)
        numbers = [v for v in row.values() if isinstance(v, int | float) and v is not True]
        numbers = [v for v in numbers if v is not False]
        line = rows.setdefault(key, [])
        if line and ONCE in row:
            line.pop()
        line.extend(numbers)
    return list(rows.values())


@needs_latex
@pytest.mark.parametrize("name", list(tables()))
def test_every_number_is_the_papers(name: str) -> None:
    table = published(name)
    assert as_printed(table) == numbers_of(table.label)


def test_rows_are_found_by_their_values() -> None:
    (row,) = published("rivals").find(base="TR-AWP WRN-34-10", defense="LO-IR-50")
    assert (row["clean"], row["IW-WC"], row[ONCE]) == (85.17, 57.88, 2.0)


def test_the_published_worst_case_of_one_row_is_above_two_of_its_columns() -> None:
    """A worst case cannot be: the paper's own extended table has one slip."""
    impossible = [
        (row["base"], row["defense"])
        for row in published("rivals-extended").rows
        if row["IW-WC"] > min(v for k, v in row.items() if k not in ("base", "defense", "IW-WC"))
    ]
    assert impossible == [("TR-AWP WRN-34-10", "LO-IR-50")]


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(SettingError, match="there are cifar10-rn18"):
        published("table-9")
