from dataclasses import replace

import pytest
import torch

from igdefense.errors import DataError
from igdefense.verdicts.accuracies import Accuracies
from igdefense.verdicts.curve import Curve
from igdefense.verdicts.diff import diff_runs
from igdefense.verdicts.difference import NOTHING, compare_accuracies, difference, differences_table
from igdefense.verdicts.run import Run
from igdefense.verdicts.verdict import Verdict

SETTINGS = {
    "defense name": "toy",
    "suite": "paper",
    "mode": "full",
    "eps": 0.1,
    "seed": 0,
    "data": "d",
    "n": 4,
}


def outcomes(right: int, n: int) -> torch.Tensor:
    return torch.arange(n) < right


def test_a_difference_with_zero_in_its_interval_is_said_not_to_be_shown() -> None:
    a, b = torch.tensor([True, False] * 50), torch.tensor([False, True] * 50)
    row = difference("IW-WC", a, b)
    assert row.value == 0
    assert row.interval[0] < 0 < row.interval[1]
    assert not row.shown
    assert NOTHING in "\n".join(differences_table([row], "a", "b"))


def test_a_clear_difference_is_shown_with_its_interval() -> None:
    row = difference("IW-WC", outcomes(60, 100), outcomes(40, 100))
    assert row.shown
    assert row.p == pytest.approx(2 / 2**20)
    lines = differences_table([row], "a", "b")
    assert "+20.0 [" in lines[1]
    assert NOTHING not in lines[1]


def test_an_interval_that_mcnemars_test_does_not_confirm_shows_nothing() -> None:
    row = difference("IW-WC", outcomes(5, 24), outcomes(0, 24))
    assert row.interval[0] > 0
    assert row.p == pytest.approx(2 / 2**5)
    assert not row.shown


def test_the_interval_does_not_depend_on_what_was_compared_before() -> None:
    a, b = torch.rand(2, 100, generator=torch.Generator().manual_seed(0))
    difference("clean", b, a)
    assert difference("IW-WC", a, b).interval == difference("IW-WC", a, b).interval
    assert difference("IW-WC", a, b, seed=1).interval != difference("IW-WC", a, b).interval


def test_rates_of_random_defenses_are_compared_without_mcnemar() -> None:
    certain = Accuracies.of_one_draw(outcomes(2, 4))
    fresh = torch.tensor([[True, True], [True, False], [True, False], [False, False]])
    shaky = Accuracies(outcomes(2, 4), fresh, fresh[:, 0], fresh.all(1))
    rows = compare_accuracies("IW-WC", shaky, certain)
    assert [row.what.removeprefix("IW-WC, ") for row in rows] == [
        "1 draw",
        "expected",
        "majority",
        "any of",
    ]
    assert [row.value for row in rows] == [0.0, 0.0, 0.25, -0.25]
    assert [row.p is None for row in rows] == [False, True, False, False]
    assert not rows[1].shown  # its interval contains 0
    assert len(compare_accuracies("IW-WC", certain, certain)) == 1


def toy(right: int, **settings: object) -> Run:
    clean = Verdict.on_all("clean", torch.ones(4, 1, dtype=torch.bool))
    attacked = Verdict.on_all("apgd", outcomes(right, 4).unsqueeze(1))
    return Run(clean, {"apgd": attacked}, SETTINGS | settings)


def test_two_runs_are_compared_image_by_image() -> None:
    clean, worst = diff_runs(toy(3), toy(1))
    assert (clean.value, worst.value) == (0.0, 0.5)
    assert worst.p == 0.5


@pytest.mark.parametrize("other", [{"data": "e"}, {"eps": 0.2}, {"n": 5}])
def test_runs_on_other_images_or_with_another_eps_are_not_compared(
    other: dict[str, object],
) -> None:
    with pytest.raises(DataError, match=f"have {next(iter(other))} ="):
        diff_runs(toy(3), toy(1, **other))


def test_the_headline_names_the_attack_that_broke_most_survivors_of_the_papers() -> None:
    right = {"apgd": "1111100", "a1": "1110000", "a2": "1100011", "a3": "0111111"}
    verdicts = {
        name: Verdict.on_all(name, torch.tensor([[mark == "1"] for mark in marks]))
        for name, marks in right.items()
    }
    clean = Verdict.on_all("clean", torch.ones(7, 1, dtype=torch.bool))
    groups = {name: {"group": "expert"} for name in ("a1", "a2", "a3")}
    run = Run(clean, verdicts, SETTINGS | {"columns": groups | {"apgd": {}}})
    assert "Worst case over 4 attacks: 14.3 [" in run.table()
    assert "a2 broke most of the 5 survivors of the 1 attacks of the paper: 3." in run.table()
    alone = replace(run, verdicts={"apgd": verdicts["apgd"]})
    assert "survivors of" not in alone.table()


def test_curves_that_end_above_the_worst_case_are_told() -> None:
    weak = Verdict.on_all("steps=5", outcomes(3, 4).unsqueeze(1))
    curve = Curve("steps", "APGD", (5, 10), (weak, weak))
    note = "The curves end at 75.0 %, above the worst case of 50.0 %"
    assert note in replace(toy(2), curves=[curve]).table()
    assert note not in replace(toy(3), curves=[curve]).table()
