from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from flips import Flips
from igdefense.attacks.apgd import APGD
from igdefense.data.data import Data
from igdefense.defenses.smoothing import Smoothed
from igdefense.errors import SettingError
from igdefense.models.toys import LinearNet
from igdefense.verdicts.curve import Curve
from igdefense.verdicts.curves import curves
from igdefense.verdicts.verdict import Verdict


@pytest.fixture(scope="module")
def net() -> LinearNet:
    return LinearNet(classes=2).eval()


@pytest.fixture(scope="module")
def data(net: LinearNet) -> Data:
    images = torch.rand(24, 3, 8, 8, generator=torch.Generator().manual_seed(2)) * 0.6 + 0.2
    return Data(images, net(images).argmax(1), ["a", "b"])


def test_enough_steps_bring_a_linear_net_down_to_its_margin(
    net: LinearNet, data: Data, tmp_path: Path
) -> None:
    radius = net.linf_radius(data.images[:], data.labels)
    eps = float(radius.median())
    steps, restarts = curves(net, data, eps=eps, steps=(1, 20), restarts=(1, 2), store=tmp_path)
    assert (steps.budget, restarts.budget) == ("steps", "restarts")
    clear = (radius - eps).abs() > 0.02 * eps
    assert torch.equal(steps.verdicts[-1].robust[clear], (radius > eps)[clear])
    assert (steps.values, restarts.values) == ((1, 20), (1, 2))
    assert steps.changes[0].value == pytest.approx(
        steps.verdicts[1].share.value - steps.verdicts[0].share.value
    )
    assert "Robust accuracy against steps: APGD-CE on the defense, 1 restarts" in steps.table()[0]


def test_a_curve_is_resumed_from_the_store_and_read_from_json(
    net: LinearNet, data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"eps": 0.01, "steps": (1, 3), "restarts": (1, 2), "eot": (1, 2), "draws": 4}
    defense = Smoothed(net, sigma=0.05)
    first = curves(defense, data, store=tmp_path, **options)  # type: ignore[arg-type]
    assert [curve.budget for curve in first] == ["steps", "restarts", "EoT draws"]

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("attacked again")

    monkeypatch.setattr(APGD, "__call__", refused)
    again = curves(defense, data, store=tmp_path, batch_size=5, **options)  # type: ignore[arg-type]
    for one, other in zip(first, again, strict=True):
        for mine, theirs in zip(one.verdicts, other.verdicts, strict=True):
            assert mine.draws.shape == (24, 5)
            assert torch.equal(mine.draws, theirs.draws)
        read = Curve.from_json(one.to_json())
        assert read.table() == one.table()
        for mine, theirs in zip(one.verdicts, read.verdicts, strict=True):
            assert torch.equal(mine.draws, theirs.draws)


def test_an_attack_that_changes_nothing_shows_no_difference(data: Data, tmp_path: Path) -> None:
    zeros = Data(data.images, torch.zeros_like(data.labels), data.class_names)
    (steps, *_) = curves(
        Flips(0.2), zeros, steps=(1, 2), restarts=(1, 2), eot=(1, 2), store=tmp_path
    )
    assert_close(steps.verdicts[0].draws, steps.verdicts[1].draws)  # the same draws judge both
    assert "no difference shown at this n" in steps.table()[-1]


def test_a_change_is_from_the_value_before_to_the_next() -> None:
    many, few = (Verdict.on_all("apgd", (torch.arange(4) < k).unsqueeze(1)) for k in (3, 1))
    curve = Curve("steps", "APGD", (5, 10), (many, few))
    assert [change.value for change in curve.changes] == [-0.5]
    assert "-50.0 [" in curve.table()[-1]


@pytest.mark.parametrize("steps", [(5,), (10, 5), (0, 5), (5, 5)])
def test_a_curve_needs_growing_budgets(
    net: LinearNet, data: Data, tmp_path: Path, steps: tuple[int, ...]
) -> None:
    with pytest.raises(SettingError, match="two or more growing numbers"):
        curves(net, data, steps=steps, store=tmp_path)
