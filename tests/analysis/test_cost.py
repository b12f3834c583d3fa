"""Passes are counted where they happen; times are taken in turns."""

import pytest
import torch
from torch import Tensor, nn

from igdefense.analysis.cost import cost, in_turns
from igdefense.analysis.passes import Passes, count_passes
from igdefense.defenses.ig_defense import defend
from igdefense.defenses.rivals.anti_adversary import AntiAdversary
from igdefense.defenses.rivals.head import Head
from igdefense.defenses.rivals.hedge import Hedge
from igdefense.defenses.rivals.sodef import SODEF
from igdefense.defenses.smoothing import Smoothed
from igdefense.errors import DataError, SettingError
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.models.toys import LinearNet
from igdefense.rankings.controls import random_for
from igdefense.rankings.ranking import Ranking

FC = 10 * 3  # multiply-adds of the CNN's last layer
WHOLE = 64 * 6 * 27 + 64 * 6 * 54 + 9 * 10 * 54 + FC


@pytest.fixture
def ranking(cnn: nn.Module, images: Tensor) -> Ranking:
    return random_for(cnn, images[:2], "last")


def test_the_passes_of_the_rivals(cnn: nn.Module, images: Tensor) -> None:
    assert count_passes(cnn, cnn, images) == Passes(1, 0)
    assert count_passes(Hedge(cnn, "authors"), cnn, images) == Passes(20, 20)
    assert count_passes(Hedge(cnn, "croce"), cnn, images) == Passes(21, 20)
    assert count_passes(AntiAdversary(cnn), cnn, images) == Passes(4, 2)


def test_several_copies_in_one_batch_are_several_passes(
    cnn: nn.Module, images: Tensor, ranking: Ranking
) -> None:
    assert count_passes(Smoothed(cnn, samples=3), cnn, images) == Passes(3, 0)
    assert count_passes(defend(cnn, ranking, 3), cnn, images) == Passes(2, 0)


def test_a_part_of_the_model_counts_by_its_share_of_the_work(
    cnn: nn.Module, images: Tensor, ranking: Ranking
) -> None:
    found = count_passes(defend(cnn, ranking, 3, sigma=0), cnn, images)
    assert found.forward == pytest.approx(1 + FC / WHOLE)
    head = Head(10, 3, layer="last", base=weights_fingerprint(cnn))
    assert count_passes(SODEF(cnn, head), cnn, images).forward == pytest.approx(1 - FC / WHOLE)


def test_a_model_without_layers_is_counted_as_a_whole(images: Tensor) -> None:
    net = LinearNet(classes=3).eval()
    assert count_passes(AntiAdversary(net, steps=3), net, images) == Passes(5, 3)


def test_no_hook_is_left_behind(cnn: nn.Module, images: Tensor) -> None:
    count_passes(AntiAdversary(cnn), cnn, images)
    assert not any(module._forward_hooks for module in cnn.modules())


def test_works_take_turns_and_a_short_one_is_called_more_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, called = 0.0, list[str]()
    length = {"short": 0.04, "long": 1.0}

    def work(name: str) -> None:
        nonlocal now
        called.append(name)
        now += length[name]

    monkeypatch.setattr("time.perf_counter", lambda: now)
    times = in_turns({name: lambda name=name: work(name) for name in length}, rounds=2)  # type: ignore[misc]
    assert times["short"] == pytest.approx([0.04, 0.04])
    assert times["long"] == pytest.approx([1, 1])
    warm = ["short", "long"] * 2  # once unmeasured, once to see how long it takes
    assert called == [*warm, "short", "short", "long", "long", "short", "short"]


def test_costs_are_ratios_to_the_base_model_at_each_batch_size(
    cnn: nn.Module, images: Tensor
) -> None:
    found = cost(
        cnn, {"three": Smoothed(cnn, samples=3)}, images, batches=(1, 8), rounds=2, gradients=True
    )
    assert [(row.defense, row.batch) for row in found.rows] == [
        *(("base model", 1), ("three", 1), ("base model", 8), ("three", 8))
    ]
    assert all(row.spread[0] <= row.ratio <= row.spread[1] for row in found.rows)
    assert [row.ratio for row in found.rows if row.defense == "base model"] == [1, 1]
    lines = found.table().splitlines()
    assert lines[-1].split()[:2] == ["three", "8"]
    assert " 3.00 " in lines[-1]
    assert found.to_json()["rows"][1]["passes"] == {"forward": 3, "backward": 0}
    assert found.threads == torch.get_num_threads()


def test_what_cannot_be_measured_is_refused(cnn: nn.Module, images: Tensor) -> None:
    with pytest.raises(SettingError, match="rounds = 0"):
        cost(cnn, {}, images, rounds=0)
    with pytest.raises(SettingError, match="at least 1 image"):
        cost(cnn, {}, images, batches=(0, 4))
    with pytest.raises(DataError, match="batch of 10 needs as many images, got 9"):
        cost(cnn, {}, images, batches=(10,))
