from pathlib import Path

import pytest
from PIL import Image

from igdefense.report.drawn import print_figure
from igdefense.report.evidence import Evidence
from igdefense.report.plots import figures_of
from igdefense.report.prints import write_prints


def test_every_figure_is_drawn_with_its_numbers_beside_it(
    evidence: Evidence, tmp_path: Path
) -> None:
    written = write_prints(evidence, tmp_path / "figures", "png")
    figures = [figure for tab in figures_of(evidence).values() for figure in tab]
    names = {"results.csv", "results.md", "results.tex"}
    names |= {f"{f.name}.{ending}" for f in figures for ending in ("png", "csv")}
    assert {path.name for path in written} == names
    for figure in figures:
        assert (tmp_path / "figures" / f"{figure.name}.csv").read_text() == figure.csv()
        with Image.open(tmp_path / "figures" / f"{figure.name}.png") as picture:
            assert picture.info["dpi"] == pytest.approx((300, 300), abs=0.1)


def test_the_same_figure_is_the_same_pdf_file(evidence: Evidence, tmp_path: Path) -> None:
    figure = figures_of(evidence)["results"][0]
    for name in ("a.pdf", "b.pdf"):
        print_figure(figure, tmp_path / name, "pdf")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()
