import json
from pathlib import Path

import pytest
import torch

from handmade import handmade
from igdefense.analysis.class_disparity import ClassDisparity
from igdefense.errors import DataError
from igdefense.verdicts.statistics import Share

RUN = handmade("111101", {"a": "110101", "b": "101111"})
LABELS = torch.tensor([0, 0, 1, 1, 3, 3])
NAMES = ["cat", "dog", "bird", "frog"]


def test_verdicts_are_counted_by_class_and_empty_classes_left_out() -> None:
    found = ClassDisparity.of(RUN, LABELS, NAMES)
    assert found.class_names == ("cat", "dog", "frog")
    assert found.clean == (Share(2, 2), Share(2, 2), Share(1, 2))
    assert found.robust == (Share(1, 2), Share(1, 2), Share(1, 2))


def test_one_attack_is_counted_alone() -> None:
    found = ClassDisparity.of(RUN, LABELS, NAMES, attack="b")
    assert found.robust == (Share(1, 2), Share(2, 2), Share(1, 2))
    with pytest.raises(DataError, match="no attack 'c', only a, b"):
        ClassDisparity.of(RUN, LABELS, NAMES, attack="c")


def test_best_worst_and_gap() -> None:
    run = handmade("1111", {"a": "1100"})
    found = ClassDisparity.of(run, torch.tensor([1, 1, 0, 0]), NAMES[:2])
    assert (found.best, found.worst, found.gap) == ("dog", "cat", 1.0)
    assert found.mean == (1.0, 0.5)
    assert "best dog, worst cat, gap 100.0 points" in found.table()


def test_it_is_saved_as_counts(tmp_path: Path) -> None:
    ClassDisparity.of(RUN, LABELS, NAMES).save(tmp_path / "d.json")
    record = json.loads((tmp_path / "d.json").read_text())
    assert record["classes"][2] == {"class": "frog", "clean": 1, "robust": 1, "n": 2}


def test_labels_of_other_data_are_refused() -> None:
    with pytest.raises(DataError, match="6 images but there are 2 labels"):
        ClassDisparity.of(RUN, LABELS[:2], NAMES)
