"""Runs in one batch find what they find one after another."""

import pytest
import torch
from torch import nn

from igdefense import load_data, load_model
from igdefense.attacks import APGD, Linf, TargetedAPGD, side_by_side
from igdefense.attacks.attack import Attack
from igdefense.attacks.fab import FABT
from igdefense.attacks.side_by_side import runs_at_once
from igdefense.attacks.views import Direct, EoT, Keyed
from igdefense.randomness import Streams

THREAT = Linf(4 / 255)


@pytest.mark.parametrize(
    "attack",
    [
        TargetedAPGD(threat=THREAT, steps=6, targets=4),
        TargetedAPGD(threat=THREAT, steps=4, targets=3, restarts=2, best="strict"),
        APGD(threat=THREAT, steps=4, restarts=3, best="highest"),
        FABT(threat=THREAT, steps=4, targets=3, restarts=2),
    ],
    ids=repr,
)
def test_runs_side_by_side_return_the_points_of_runs_in_turn(
    attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data = load_model("embedded"), load_data("embedded:test", n=6)
    points = []
    for rows in (1, 32):
        monkeypatch.setattr(side_by_side, "FULL", rows)
        points.append(attack(model, data.images[:], data.labels, rng=Streams(range(6))))
    assert torch.equal(*points)


def test_a_batch_is_filled_and_no_more() -> None:
    view = Direct(nn.Identity())
    assert [runs_at_once(view, left, 9) for left in (1, 4, 12, 32, 50)] == [9, 8, 2, 1, 1]


def test_runs_on_a_random_view_stay_in_turn() -> None:
    view = Keyed(nn.Identity(), Streams(range(4)))
    assert runs_at_once(view, 4, 9) == runs_at_once(EoT(view, 2), 4, 9) == 1
