"""A whole search: rounds, the choice, the test, and what an interruption costs."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from handmade import handmade
from hard_defense import CLASSES, confident_net, some_images
from igdefense.data.data import Data
from igdefense.errors import DataError, OutputError, SettingError
from igdefense.family.member import Member
from igdefense.family.outcome import Outcome
from igdefense.family.probed import Probed
from igdefense.family.search import search
from igdefense.models.fingerprint import identity
from igdefense.verdicts.run import Run

EVALUATE = "igdefense.family.search.evaluate"
SPACE = [
    Member(kind="class-masks", layer="3", keep=0.5),
    Member(kind="spectral", layer="3", keep=0.25),
    Member(kind="spectral", layer="3", keep=0.5),
    Member(kind="spectral", layer="3", keep=0.75),
]


class Judge:
    """In place of `evaluate`: each setting keeps every so many images, the base every fourth."""

    every = (5, 4, 2, 3)

    def __init__(self, stop_at: int = 0) -> None:
        self.asked: list[tuple[str, int]] = []
        self.stop_at = stop_at

    def __call__(self, defense: nn.Module, data: Data, *, out: Path, **options: Any) -> Run:
        if len(self.asked) + 1 == self.stop_at:
            raise KeyboardInterrupt
        names, count = [member.name for member in SPACE], len(data)
        self.asked.append((options["name"], count))
        of = self.every[names.index(options["name"])] if options["name"] in names else 4
        kept = "".join("01"[i % of == 0] for i in range(count))
        told = {"defense": identity(defense), "data": data.fingerprint, "suite": options["suite"]}
        run = handmade("1" * count, {"attack": kept}, eps=options["eps"], **told)
        run.save(out)
        return run


def run(out: Path, **options: Any) -> Outcome:
    """Twelve images for the rankings, 24 to choose on, 12 to report on."""
    net, images = confident_net(), some_images(48)
    data = Data(images, torch.arange(48) % 5, CLASSES)
    given: dict[str, Any] = {"validation": data[:24], "test": data[24:36], "first": 12}
    return search(SPACE, Probed(net, data[36:]), out=out, **(given | options))


def test_the_best_on_validation_is_reported_on_the_test_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = Judge()
    monkeypatch.setattr(EVALUATE, judge)
    found = run(tmp_path / "out")
    first, second = found.rounds
    assert [trial.difference.value * 12 for trial in first] == pytest.approx([0, 0, 3, 1])
    assert [trial.member for trial in second] == [SPACE[2], SPACE[3]]  # the better half
    assert found.chosen == SPACE[2]
    assert (found.verdict.left, found.verdict.right) == (6 / 12, 3 / 12)
    on_test = [name for name, count in judge.asked[-2:]]
    assert on_test == ["base", SPACE[2].name]  # nothing else ever saw them
    assert len(judge.asked) == (1 + 4) + (1 + 2) + 2


def test_an_interrupted_search_goes_on_and_a_finished_one_judges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, rest = Judge(stop_at=7), Judge()
    monkeypatch.setattr(EVALUATE, stopped)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "out")
    rounds = json.loads((tmp_path / "out" / "rounds.json").read_text())
    assert [[trial["images"] for trial in trials] for trials in rounds] == [[12] * 4]
    monkeypatch.setattr(EVALUATE, rest)
    told = json.loads(json.dumps(run(tmp_path / "out").to_json()))
    assert (len(stopped.asked), len(rest.asked)) == (6, 4)
    monkeypatch.setattr(EVALUATE, None)
    assert json.loads(json.dumps(run(tmp_path / "out").to_json())) == told
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == told


def test_another_search_in_the_same_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EVALUATE, Judge(stop_at=1))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "out")
    with pytest.raises(OutputError, match="another eps"):
        run(tmp_path / "out", eps=0.02)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(OutputError, match="not empty and holds no search"):
        run(tmp_path / "full")


def test_images_to_report_on_may_not_have_been_seen(tmp_path: Path) -> None:
    images = some_images(48)
    shared, probed = (
        Data(part, torch.zeros(3).long(), CLASSES) for part in (images[23:26], images[45:])
    )
    with pytest.raises(DataError, match="The validation and the test data share 1 image,"):
        run(tmp_path / "out", test=shared)
    with pytest.raises(DataError, match="The probe and the test data share 3 images"):
        run(tmp_path / "out", test=probed)
    with pytest.raises(SettingError, match="suites expert and expert-quick, not 'paper'"):
        run(tmp_path / "out", suite="paper")
    assert list(tmp_path.iterdir()) == []
