from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from igdefense.errors import OutputError, SettingError
from igdefense.paper import looks, sweeps, tables
from igdefense.paper.bench import Bench
from igdefense.paper.outcome import Outcome
from igdefense.paper.published import tables as published_tables
from igdefense.paper.reproduce import EXPERIMENTS, reproduce
from igdefense.paper.scale import scaled
from igdefense.verdicts.run import Run
from igdefense.verdicts.statistics import Share


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The embedded model and four images; every suite shrunk to next to nothing."""
    scale = scaled("embedded", n=4)
    found = Bench(scale, tmp_path)
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


def test_the_loss_in_the_plane_is_never_below_that_along_the_gradient(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "SURFACES", 1)
    rows = looks.surface(bench)
    assert [row["defense"] for row in rows] == ["none", "CD-IR-16", "LO-IR-16"]
    for row in rows:
        clean, along, anywhere = (float(str(row[key])) for key in list(row)[1:])
        assert clean < along <= anywhere


def test_the_shift_is_that_of_the_analysis(bench: Bench) -> None:
    rows = looks.shift(bench)
    outcomes = {(row["attack"], row["definition"]) for row in rows}
    assert outcomes == {
        (a, d) for a in ("successful", "unsuccessful") for d in ("paper", "released")
    }
    assert all(int(str(row["images"])) <= 4 for row in rows)


def test_two_passes_without_masks_are_the_base_model(bench: Bench) -> None:
    everything = bench.masked("LO-IR", keep=bench.ranking("LO-IR").neurons, sigma=0)
    images = bench.data.images[:]
    torch.testing.assert_close(everything(images), bench.model(images), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("sweep", "settings"),
    [
        (sweeps.sensitivity_k, ["3", "13", "26", "51", "102", "125"]),
        (sweeps.sensitivity_layer, ["layer1", "layer2", "layer3", "layer4"]),
        (sweeps.probe_size, ["20", "50", "100", "200"]),
    ],
    ids=["keep", "layer", "probe"],
)
def test_a_sweep_changes_one_setting(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    sweep: Callable[[Bench], list[tables.Row]],
    settings: list[str],
) -> None:
    asked = []
    monkeypatch.setattr(sweeps, "METHODS", ("LO-IR",))
    once = bench.run("any", bench.model)

    def noted(name: str, *_: object, **__: object) -> Run:
        asked.append(name)
        return once

    monkeypatch.setattr(bench, "run", noted)
    rows = sweep(bench)
    assert [next(iter(row.values())) for row in rows] == settings
    assert len(set(asked)) == len(settings)


def test_an_outcome_is_saved_and_read_again(tmp_path: Path) -> None:
    row: tables.Row = {"defense": "none", "clean": Share(3, 4), "minutes": 0.5}
    outcome = Outcome("efficiency", "times", {"n": 4}, (row,), ("a note",))
    outcome.save(tmp_path / "e.json")
    assert Outcome.load(tmp_path / "e.json") == outcome
    assert "75.0 [30.1, 95.4]" in outcome.table()
    assert "* a note" in outcome.table()
    (tmp_path / "e.json").write_text("{}")
    with pytest.raises(OutputError, match="not an outcome"):
        Outcome.load(tmp_path / "e.json")


def test_wrong_names_and_a_scale_without_its_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="The paper has no 'table-9'"):
        reproduce("table-9", scaled("embedded"), tmp_path)
    with pytest.raises(SettingError, match="No scale 'huge'"):
        scaled("huge")
    with pytest.raises(SettingError, match="--model FILE"):
        reproduce("rivals", scaled("paper"), tmp_path)
