"""Four neurons that are the pixels themselves: three serve a class each, the last serves none."""

import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from igdefense.analysis.activation_shift import ActivationShift, activation_shift
from igdefense.rankings.ranking import Ranking

NONE = "no class"
RANKING = Ranking("features", torch.cat([torch.eye(3), torch.zeros(3, 1)], dim=1))
LABELS = torch.tensor([0, 0, 0])
CLEAN = [
    [0.8, 0.2, 0.2, 0.4],
    [0.4, 0.2, 0.1, 0.4],
    [0.3, 0.4, 0.1, 0.5],
]  # the last: wrong at once
ATTACKED = [[0.4, 0.6, 0.3, 0.2], [0.3, 0.5, 0.1, 0.4], [0.2, 0.6, 0.1, 0.5]]


class Pixels(nn.Module):
    """Activations are the four pixels, logits the first three of them."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Flatten()

    def forward(self, images: Tensor) -> Tensor:
        return self.features(images)[:, :3]


def pixels(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows).view(-1, 1, 2, 2)


def shift_of(clean: list[list[float]], attacked: list[list[float]]) -> ActivationShift:
    x = pixels(attacked)
    return activation_shift(Pixels().eval(), RANKING, 1, pixels(clean), x, LABELS[: len(x)])


def percents(shift: ActivationShift, definition: str, successful: bool) -> dict[str, float]:
    changes = shift.of(definition, successful)  # type: ignore[arg-type]
    return {group: round(change.percent, 3) for group, change in changes.items()}


def test_the_paper_s_change_is_that_of_the_mean_activation() -> None:
    found = percents(shift_of(CLEAN[:2], ATTACKED[:2]), "paper", True)
    assert found == {
        "true class": round(100 * -0.5 / 1.2, 3),
        "predicted class": 175.0,  # 0.4 -> 1.1
        "other classes": round(100 * 0.1 / 0.3, 3),
        NONE: -25.0,
    }


def test_the_released_change_is_the_mean_of_each_image_s_own() -> None:
    found = percents(shift_of(CLEAN[:2], ATTACKED[:2]), "released", True)
    assert found["true class"] == -37.5  # of -50 % and -25 %
    assert found["predicted class"] == 175.0  # of 200 % and 150 %
    assert found[NONE] == -25.0  # of -50 % and 0 %


def test_images_wrong_when_clean_count_in_the_paper_s_definition_only() -> None:
    shift = shift_of(CLEAN, ATTACKED)
    assert shift.of("paper", True)["true class"].images == 3
    assert shift.of("released", True)["true class"].images == 2


def test_an_unsuccessful_attack_has_no_predicted_class_beside_the_true_one() -> None:
    shift = shift_of(CLEAN[:1], [[0.6, 0.2, 0.1, 0.4]])
    assert percents(shift, "paper", False) == {
        "true class": -25.0,
        "other classes": -25.0,  # of classes 1 and 2: 0.4 -> 0.3
        NONE: 0.0,
    }
    assert math.isnan(shift.of("paper", True)["true class"].percent)


def test_without_unimportant_neurons_there_is_no_number_for_them(tmp_path: Path) -> None:
    ranking = Ranking("features", torch.eye(4)[[0, 1, 2]] + torch.tensor([0.0, 0, 0, 0.5]))
    x = pixels(ATTACKED[:1])
    shift = activation_shift(Pixels().eval(), ranking, 2, pixels(CLEAN[:1]), x, LABELS[:1])
    assert shift.unimportant == 0
    assert math.isnan(shift.of("paper", True)[NONE].percent)
    shift.save(tmp_path / "s.json")
    assert json.loads((tmp_path / "s.json").read_text())["changes"][3]["percent"] is None


def test_the_interval_of_equal_images_is_a_point() -> None:
    change = shift_of(CLEAN[:1] * 3, ATTACKED[:1] * 3).of("paper", True)["true class"]
    assert change.interval == pytest.approx((-50.0, -50.0), abs=1e-4)
    assert "-50.0 [-50.0, -50.0]" in shift_of(CLEAN[:1] * 3, ATTACKED[:1] * 3).table()
