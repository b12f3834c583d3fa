import csv
import io

from handmade import handmade
from igdefense.report.exhibit import Exhibit
from igdefense.report.result_table import ResultTable

RUNS = [
    Exhibit("A_1 & B", handmade("1110", {"pgd": "1010", "rays": "1110"})),
    Exhibit("<b>", handmade("1111", {"pgd": "0001"})),
]
TABLE = ResultTable.of(RUNS, {"<b>": {"IW-WC": 53.34}})


def test_rows_are_clean_every_attack_and_the_worst_case() -> None:
    rows = dict(TABLE.rows)
    assert list(rows) == ["clean", "pgd", "rays", "IW-WC"]
    values = [[cell.value if cell else None for cell in cells] for cells in rows.values()]
    assert values == [["75.0", "100.0"], ["50.0", "25.0"], ["75.0", None], ["50.0", "25.0"]]
    assert rows["pgd"][1] is not None
    assert rows["pgd"][1].broken == (3, 4)


def test_published_values_stand_beside_ours() -> None:
    worst = dict(TABLE.rows)["IW-WC"]
    assert [cell.published if cell else None for cell in worst] == [None, 53.34]


def test_csv_holds_the_counts() -> None:
    rows = list(csv.DictReader(io.StringIO(TABLE.csv())))
    found = next(row for row in rows if (row["run"], row["attack"]) == ("<b>", "pgd"))
    assert (found["right"], found["n"], found["broken"], found["attacked"]) == ("1", "4", "3", "4")


def test_names_cannot_break_a_latex_or_markdown_table() -> None:
    assert r"A\_1 \& B" in TABLE.latex()
    assert r"A\_1 & B" in TABLE.markdown()
    assert r"\<b\>" in TABLE.markdown()
    ends = [line.count("&") - line.count(r"\&") for line in TABLE.latex().splitlines()]
    assert ends[2:] == [2, 0, 2, 2, 2, 0, 2, 0, 0]
