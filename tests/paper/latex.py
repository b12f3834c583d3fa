"""The paper's tables as rows of numbers, read from its LaTeX where that is at hand."""

import re
from pathlib import Path

import pytest

SOURCES = sorted((Path(__file__).parents[2].parent / "shared" / "seeds").glob("*.txt"))
needs_latex = pytest.mark.skipif(not SOURCES, reason="the paper's LaTeX is not here")


def numbers_of(label: str) -> list[list[float]]:
    """The numbers of each row of the table with this label, gains in brackets left out."""
    text = SOURCES[0].read_text().replace("\\%", "")
    before = text[: text.index(f"\\label{{{label}}}")]
    after = text[text.index(f"\\label{{{label}}}") :]
    start = before.rindex("\\caption{")
    table = before[start:] if "\\midrule" in before[start:] else after
    table = table[: table.index("\\bottomrule")]
    rows = []
    for row in re.split(r"\\\\", table[table.index("\\midrule") :]):
        bare = re.sub(
            r"\\(?:cite|multirow|color\[HTML\]|cellcolor|cmidrule\S*?)\{[^}]*\}", " ", row
        )
        bare = re.sub(r"\\texttt\{[^}]*\}-\d+", " ", bare)
        bare = re.sub(r"\([+-][\d.]+\)", " ", bare).replace("$", " ")
        found = re.findall(r"(?<![\w.=\-\d/])-?\d+\.?\d*(?![\w/\d])", bare)
        rows.append([float(number) for number in found])
    return [row for row in rows if row]
