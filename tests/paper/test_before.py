"""What is told before a table is run: what is missing, and how long it will take."""

from dataclasses import replace
from pathlib import Path

import pytest

from igdefense.attacks.auto_attack import AutoAttack
from igdefense.attacks.suites import Column
from igdefense.attacks.threat import Linf
from igdefense.data.datasets import load_data
from igdefense.errors import SettingError
from igdefense.paper import looks, tables
from igdefense.paper.bench import Bench
from igdefense.paper.estimate import Estimate, Plan, estimate
from igdefense.paper.missing import advice, device_for, missing
from igdefense.paper.reproduce import EXPERIMENTS, reproduce
from igdefense.paper.scale import SETUPS, scaled


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    found = Bench(scaled("embedded", n=4), tmp_path)
    found.__dict__["probe"] = load_data("embedded:probe", n=20)
    return found


def test_the_setups_are_of_tables_that_there_are() -> None:
    assert set(SETUPS) <= set(EXPERIMENTS)


def test_the_paper_ran_imagenet_at_half_the_eps_with_more_neurons() -> None:
    scale = scaled("paper", "imagenet", model="a.pt")
    assert (scale.eps, scale.keep, scale.n, scale.arch) == (4 / 255, 750, 5_000, "resnet50")
    assert scaled("paper", "ablation", model="a.pt").arch == "wrn-34-10"
    assert scaled("paper", "ablation", model="package.module:net").arch is None
    assert scaled("embedded", "imagenet").eps == 4 / 255


def test_everything_that_is_missing_is_told_at_once(tmp_path: Path) -> None:
    scale = scaled("paper", "rivals", data="no.npz", probe="embedded:probe", encoder="embedded")
    says = missing("rivals", Bench(scale, tmp_path))
    assert [words.split(":")[0] for words in says] == [
        "the base model",
        "the images to judge on",
        "SODEF's head for that base model",
    ]
    with pytest.raises(
        SettingError, match=r"^imagenet at the scale paper needs .*the images to judge on"
    ):
        reproduce("imagenet", scaled("paper", "imagenet", encoder="embedded"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_missing_of_the_embedded_model(bench: Bench) -> None:
    assert missing("rivals", bench) == []
    assert advice("rivals", bench) is None
    assert "a GPU is wanted" in str(advice("rivals", Bench(scaled("paper"), bench.out)))


def test_a_device_that_is_not_there_is_refused() -> None:
    assert device_for(None, "embedded") == "cpu"
    with pytest.raises(SettingError, match="There is no cuda:99 here"):
        device_for("cuda:99", "paper")
    with pytest.raises(SettingError, match="No device 'gpu'"):
        device_for("gpu", "paper")


def test_a_plan_notes_what_a_table_would_run_and_runs_nothing(bench: Bench) -> None:
    plan = Plan(bench)
    tables.ablation(plan)
    assert len(plan.runs) == 9
    assert {len(columns) for _, columns in plan.runs} == {9}
    assert {method for method, _, _ in plan.rankings} == {"LO-IR", "CD-IR"}
    shifted = Plan(bench)
    looks.shift(shifted)
    assert [column.name for _, columns in shifted.runs for column in columns] == ["pgd-50"]
    looks.surface(Plan(bench))
    assert list(bench.out.iterdir()) == []


def test_the_estimate_grows_with_images_and_shrinks_with_workers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock that ticks once a look, the timed unit takes one second."""
    ticks = iter(range(100))
    monkeypatch.setattr("igdefense.paper.estimate.time.monotonic", lambda: next(ticks))

    def seconds(n: int, workers: int) -> float:
        other = Bench(replace(bench.scale, n=n), bench.out, workers=workers)
        plan = Plan(other)
        column = Column(name="aa", attack=AutoAttack.rand(Linf(8 / 255), steps=2, samples=1))
        plan.run("base", other.model, suite=(column,))
        found = estimate(plan, other)
        assert found is not None
        return found.seconds

    assert seconds(4, 1) == pytest.approx(2)  # the first of two attacks was timed
    assert seconds(32, 1) == pytest.approx(4)  # on sixteen images
    assert seconds(32, 2) == pytest.approx(2)


def test_a_base_model_is_attacked_once_for_all_runs_of_a_table(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter(range(100))
    monkeypatch.setattr("igdefense.paper.estimate.time.monotonic", lambda: next(ticks))
    plan = Plan(bench)
    attack = AutoAttack.rand(Linf(8 / 255), steps=1, samples=1)
    transfer = Column(name="transfer", attack=attack, target="base")
    for _ in range(3):
        plan.run("any", bench.smoothed(), suite=(transfer,))
    found = estimate(plan, bench)
    assert found is not None
    assert found.seconds == pytest.approx(2)


def test_durations_are_in_units_that_one_can_grasp() -> None:
    told = str(Estimate(3 * 3_600, "apgd on 16 images", 1.5, 3, 2))
    assert told == (
        "2 rankings and 3 runs, at most about 3.0 hours here: the first unit, apgd on 16 images, "
        "took 1.5 s"
    )
    assert "at most about 90 seconds" in str(Estimate(90, "", 0, 0, 1))


def test_nothing_to_run_takes_no_estimate(bench: Bench) -> None:
    assert estimate(Plan(bench), bench) is None
