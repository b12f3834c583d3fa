"""`igd report` and `igd figures`."""

import json
import sys
from pathlib import Path

import pytest

from cli.shell import Igd, Refused
from handmade import handmade
from igdefense.paper.outcome import Outcome, Row
from igdefense.verdicts.statistics import Share

CNN = "shell_nets:cnn"
SMALL = [f"{name}=1" for name in ("steps", "targets", "transfer_targets", "fab_steps", "eot")]
SMALL += ["square_queries=2", "rays_queries=2"]
BUDGET = [part for pair in SMALL for part in ("--budget", pair)]


@pytest.fixture
def run(igd: Igd, ranking: str) -> str:
    """A finished run of IG-Defense on the nine images."""
    options = ("--ranking", ranking, "--keep", 4, "--data", "data.npz", "--suite", "quick")
    ended = igd("evaluate", CNN, *options, *BUDGET, "--out", "run")
    assert ended.code == 0, ended.err
    return "run"


def test_a_run_becomes_a_page_with_everything_on_it(igd: Igd, run: str) -> None:
    ended = igd("report", run, "--out", "page.html", "--surface-images", 1, "--title", "A & B")
    assert ended.code == 0, ended.err
    assert "1 run -> page.html" in ended.out
    page = Path("page.html").read_text(encoding="utf-8")
    assert "<title>A &amp; B</title>" in page
    for tab in ("results", "classes", "shift", "sensitivity", "surface", "neurons", "gallery"):
        assert f'id="panel-{tab}"' in page


def test_a_run_becomes_figures_and_tables(igd: Igd, run: str) -> None:
    ended = igd("figures", run, "--out", "figures", "--surface-images", 0, "--format", "svg")
    assert ended.code == 0, ended.err
    names = {path.name for path in Path("figures").iterdir()}
    assert {"results.tex", "results.md", "results.csv", "survival.svg", "survival.csv"} <= names
    assert r"\toprule" in Path("figures/results.tex").read_text()


def test_published_values_come_from_a_file(igd: Igd, run: str, refused: Refused) -> None:
    name = json.loads(Path(run, "results.json").read_text())["settings"]["defense name"]
    Path("p.json").write_text(json.dumps({name: {"IW-WC": 53.34}}))
    quick = ("--surface-images", 0, "--images", 0)
    assert igd("report", run, "--out", "page.html", "--published", "p.json", *quick).code == 0
    assert "published 53.34" in Path("page.html").read_text(encoding="utf-8")
    Path("p.json").write_text("[1]")
    says = refused("report", run, "--out", "other.html", "--published", "p.json", *quick)
    assert "p.json is not a JSON file of the form" in says
    says = refused("report", run, "--out", "other.html", "--published", "eps/none", *quick)
    assert "eps has the base models DAJAT RN18, not 'none'" in says


def test_outcomes_of_reproduce_join_the_page_and_the_figures(
    igd: Igd, run: str, refused: Refused
) -> None:
    rows: tuple[Row, ...] = tuple({"layer": f"layer{i}", "LO-IR AA": Share(i, 4)} for i in (1, 2))
    Outcome("sensitivity-layer", "Figure", {"n": 4}, rows).save(Path("o.json"))
    quick = ("--with", "o.json", "--surface-images", 0)
    assert igd("report", run, "--out", "page.html", "--images", 0, *quick).code == 0
    assert 'data-figure="sweep-layer"' in Path("page.html").read_text(encoding="utf-8")
    assert igd("figures", run, "--out", "figures", "--format", "svg", *quick).code == 0
    assert Path("figures/sweep-layer.svg").is_file()
    Path("bad.json").write_text("{}")
    assert "bad.json is not an outcome" in refused(
        "report", run, "--out", "p.html", "--with", "bad.json"
    )
    twice = ("--with", "o.json", "--with", "o.json")
    assert "of the same table" in refused("report", run, "--out", "p.html", *twice)


def test_a_run_whose_model_is_gone_keeps_its_table(igd: Igd) -> None:
    recipe = {"model": "gone.pt", "arch": "resnet18", "mean": None, "std": None, "keep": None}
    for name, told in (("python", None), ("gone", recipe)):
        handmade("1101", {"pgd": "1001"}, recipe=told).save(Path(name))
        ended = igd("report", name, "--out", f"{name}.html")
        assert ended.code == 0, ended.err
        assert "only its table is shown" in ended.err
        assert 'data-attack="pgd"' in Path(f"{name}.html").read_text(encoding="utf-8")


def test_mistakes_are_one_sentence(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    handmade("1101", {"pgd": "1001"}).save(Path("a"))
    handmade("1101", {"pgd": "1001"}, data="y").save(Path("b"))
    Path("old.html").touch()
    assert "does not hold a finished run" in refused("report", "no", "--out", "p.html")
    assert "b was made on other data (y) than a (x)" in refused(
        "report", "a", "b", "--out", "p.html"
    )
    assert "old.html exists already" in refused("report", "a", "--out", "old.html")
    assert "does not end in .html" in refused("report", "a", "--out", "p.pdf")
    assert "named twice" in refused("report", "a", "a", "--out", "p.html")
    assert "a exists already" in refused("figures", "a", "--out", "a")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'igdefense[figures]'" in refused("figures", "a", "--out", "figures")
