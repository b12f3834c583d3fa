import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from igdefense.analysis.activation_shift import activation_shift
from igdefense.attacks.pgd import PGD
from igdefense.attacks.suites import Column
from igdefense.attacks.threat import Linf
from igdefense.data.datasets import load_data
from igdefense.errors import OutputError, SettingError
from igdefense.models.fingerprint import identity
from igdefense.paper import looks, sweeps, tables
from igdefense.paper.bench import Bench
from igdefense.paper.estimate import Plan
from igdefense.paper.outcome import Change, Outcome, Row
from igdefense.paper.published import tables as published_tables
from igdefense.paper.reproduce import EXPERIMENTS, reproduce
from igdefense.paper.scale import scaled
from igdefense.verdicts.statistics import Share


def small(out: Path) -> Bench:
    """Four images to judge on, a tenth of the probe set to rank by."""
    found = Bench(scaled("embedded", n=4), out)
    found.__dict__["probe"] = load_data("embedded:probe", n=200)
    return found


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The embedded model and four images; every suite shrunk to next to nothing."""
    found = small(tmp_path)
    run = found.run
    tiny = {"steps": 1, "targets": 1, "transfer_targets": 1, "fab_steps": 1, "eot": 1}
    tiny |= {"square_queries": 2, "rays_queries": 2}

    def quickly(name: str, defense: torch.nn.Module, **options: object) -> object:
        return run(name, defense, **(options | {"suite": "quick", "budget": tiny}))  # type: ignore[arg-type]

    monkeypatch.setattr(found, "run", quickly)
    return found


def test_every_published_table_can_be_reproduced() -> None:
    assert set(published_tables()) <= set(EXPERIMENTS)


def test_the_headline_rows_are_the_runs_own_shares(bench: Bench) -> None:
    rows = tables.headline(bench)
    assert [row["defense"] for row in rows] == ["none", "CD-IR-16", "LO-IR-16"]
    run = bench.run("again", bench.masked("LO-IR"))
    assert rows[2]["clean"] == run.clean.share
    assert rows[2]["AA"] == run.verdicts["autoattack"].share
    assert rows[2]["IW-WC"] == run.worst_case.share


def test_a_finished_run_is_read_and_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = small(tmp_path)
    columns = (Column(name="pgd", attack=PGD(threat=Linf(8 / 255), steps=1)),)
    first = bench.run("base", bench.model, suite=columns)
    monkeypatch.setattr("igdefense.paper.bench.evaluate", lambda *_, **__: pytest.fail("asked"))
    again = bench.run("base", bench.model, suite=columns)
    assert again.to_json() == first.to_json()
    with pytest.raises(pytest.fail.Exception, match="asked"):
        bench.run("base", bench.smoothed(), suite=columns)


def test_the_loss_in_the_plane_is_never_below_that_along_the_gradient(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "SURFACES", 1)
    rows = looks.surface(bench)
    assert [row["defense"] for row in rows] == ["none", "CD-IR-16", "LO-IR-16"]
    for row in rows:
        clean, along, anywhere = (float(str(row[key])) for key in list(row)[2:])
        assert clean < along <= anywhere


def test_the_shift_is_that_of_the_analysis_on_images_from_the_store(tmp_path: Path) -> None:
    bench = small(tmp_path)
    rows = looks.shift(bench)
    assert [row["definition"] for row in rows] == ["paper", "released"]
    column = Column(name="pgd-50", attack=PGD(threat=Linf(8 / 255), steps=50), target="base")
    found = activation_shift(
        bench.model,
        bench.ranking("LO-IR"),
        16,
        bench.data.images[:],
        bench.crafted(column),
        bench.data.labels,
    )
    expected = found.of("paper", True)["predicted class"]
    shown = rows[0]["successful predicted"]
    assert isinstance(shown, Change)
    assert (shown.percent, shown.images) == (expected.percent, expected.images)


def test_two_passes_without_masks_are_the_base_model(bench: Bench) -> None:
    everything = bench.masked("LO-IR", keep=bench.ranking("LO-IR").neurons, sigma=0)
    images = bench.data.images[:]
    torch.testing.assert_close(everything(images), bench.model(images), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("sweep", "settings"),
    [
        (sweeps.sensitivity_k, ["3", "6", "13", "26", "51", "102"]),
        (sweeps.sensitivity_layer, ["layer1", "layer2", "layer3", "layer4"]),
        (sweeps.probe_size, ["2", "5", "10", "20"]),
    ],
    ids=["keep", "layer", "probe"],
)
def test_a_sweep_changes_one_setting(
    tmp_path: Path, sweep: Callable[[Bench], list[Row]], settings: list[str]
) -> None:
    plan = Plan(small(tmp_path))
    rows = sweep(plan)
    assert [next(iter(row.values())) for row in rows] == settings
    asked = {identity(defense) for defense, _ in plan.runs}
    # a plan's rankings are all alike, so that only what is varied in the defense itself tells
    assert len(plan.runs) == 2 * len(settings)
    assert len(asked) == (1 if sweep is sweeps.probe_size else len(settings))


def test_steps_are_rows_and_defenses_columns(tmp_path: Path) -> None:
    rows = sweeps.attack_steps(Plan(small(tmp_path)))
    assert [row["steps"] for row in rows] == ["1", "5", "20", "50", "100"]
    assert list(rows[0]) == ["attack", "steps", "none", "CD-IR-16", "LO-IR-16"]


def test_gradient_masking_is_asked_of_the_rivals_that_the_paper_asked(tmp_path: Path) -> None:
    rows = tables.gradient_masking(Plan(small(tmp_path)))
    theirs = [str(row["defense"]) for row in published_tables()["gradient-masking"].rows]
    ours = {str(row["defense"]).replace("-16", "-50") for row in rows}
    assert ours == set(theirs)


def test_an_outcome_is_saved_and_read_again(tmp_path: Path) -> None:
    row: Row = {"defense": "none", "clean": Share(3, 4), "minutes": 0.5}
    outcome = Outcome("efficiency", "times", {"n": 4}, (row,), ("a note",))
    change = Change(math.nan, math.nan, math.nan, 0)
    assert str(change) == "no such image"
    assert str(Change(-3.25, -5, 1.04, 7)) == "-3.2 [-5.0, +1.0]"
    outcome.save(tmp_path / "e.json")
    assert Outcome.load(tmp_path / "e.json") == outcome
    assert "75.0 [30.1, 95.4]" in outcome.table()
    assert "* a note" in outcome.table()
    odd = Outcome("shift", "odd", {}, ({"true": change, "other": Change(1.0, 0.0, 2.0, 3)},))
    odd.save(tmp_path / "odd.json")
    assert str(Outcome.load(tmp_path / "odd.json")) == str(odd)
    (tmp_path / "e.json").write_text("{}")
    with pytest.raises(OutputError, match="not an outcome"):
        Outcome.load(tmp_path / "e.json")


def test_ours_and_the_published_share_their_columns() -> None:
    row: Row = {"defense": "LO-IR-16", "clean": Share(3, 4), "AA": Share(1, 4)}
    outcome = Outcome("cifar10-rn18", "Table 1", {"model": "embedded", "seconds": 5}, (row,))
    head, ours, *theirs = outcome.grid
    assert head == ("", "base", "defense", "clean", "AA", "IW-WC")
    assert ours == ("ours", "embedded", "LO-IR-16", "75.0 [30.1, 95.4]", "25.0 [4.6, 69.9]", "")
    assert ("published", "OAAT RN18", "LO-IR-50", "79.9", "54.9", "52.3") in theirs
    assert outcome.about == "model embedded, took 5 s"


def test_words_stand_before_numbers() -> None:
    rows: tuple[Row, ...] = (
        {"sigma": "1/255", "AA": Share(1, 4)},
        {"samples": "16", "AA": Share(2, 4)},
    )
    assert Outcome("smoothing", "", {}, rows).grid[0] == ("sigma", "samples", "AA")


@pytest.mark.parametrize("count", ["5", "-1"])
def test_an_outcome_that_cannot_be_is_refused(tmp_path: Path, count: str) -> None:
    share = f'{{"right": {count}, "n": 4}}'
    text = f'"name": "a", "what": "b", "settings": {{}}, "rows": [{{"x": {share}}}], "notes": []'
    (tmp_path / "o.json").write_text(f'{{"format": "igdefense-outcome-1", {text}}}')
    with pytest.raises(OutputError, match=f"{count} of 4 images"):
        Outcome.load(tmp_path / "o.json")


def test_wrong_names_and_a_scale_without_its_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="The paper has no 'table-9'"):
        reproduce("table-9", scaled("embedded"), tmp_path)
    with pytest.raises(SettingError, match="No scale 'huge'"):
        scaled("huge")
    with pytest.raises(SettingError, match="--model FILE"):
        reproduce("rivals", scaled("paper"), tmp_path)
