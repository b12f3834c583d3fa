"""On a linear net of two classes the cross-entropy is softplus(-margin), known at every point."""

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

from igdefense.analysis.loss_surface import directions, loss_surface
from igdefense.defenses.smoothing import Smoothed
from igdefense.errors import SettingError
from igdefense.models.toys import LinearNet
from igdefense.randomness import Streams

EPS = 8 / 255
NET = LinearNet((3, 4, 4), classes=2).eval()
IMAGES = 0.3 + 0.4 * torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 1])


def slope(label: int) -> Tensor:
    """How the margin changes with each pixel."""
    with torch.no_grad():
        return (NET.weight[label] - NET.weight[1 - label]).view(1, 3, 4, 4)


def margins(losses: Tensor) -> Tensor:
    """softplus upside down."""
    return -torch.log(torch.expm1(losses.double()))


def test_along_the_gradient_the_margin_falls_by_its_l1_norm() -> None:
    surface = loss_surface(NET, IMAGES, LABELS, eps=EPS, points=5)
    for i, label in enumerate(LABELS.tolist()):
        clean = (slope(label) * (IMAGES[i] - 0.5)).sum()
        expected = F.softplus(-(clean - surface.steps * slope(label).abs().sum()))
        assert_close(surface.losses[i, :, 2], expected, atol=1e-5, rtol=1e-4)


def test_a_corner_is_clipped_to_the_ball_so_half_of_the_pixels_move() -> None:
    surface = loss_surface(NET, IMAGES[:1], LABELS[:1], eps=EPS, points=3, seed=3)
    moved = margins(surface.losses[0, 1, 1]) - margins(surface.losses[0, 2, :])
    whole = EPS * slope(0).abs().sum()
    assert_close(moved[1], whole.double(), atol=1e-4, rtol=1e-4)
    assert_close(
        moved[0] + moved[2], whole.double(), atol=1e-4, rtol=1e-4
    )  # one half and the other


@pytest.mark.parametrize("shape", [(3, 4, 4), (1, 3, 3)])
def test_the_directions_are_signs_and_orthogonal(shape: tuple[int, ...]) -> None:
    net = LinearNet(shape, classes=2).eval()
    image = torch.full((1, *shape), 0.5)
    g, across = directions(net, image, LABELS[:1], [0], Streams([1]))
    assert set(g.unique().tolist()) <= {-1.0, 1.0}
    assert float((g * across).sum()) == 0
    assert int((across == 0).sum()) == g.numel() % 2


def test_a_linear_net_hides_nothing_from_its_gradient() -> None:
    surface = loss_surface(NET, IMAGES, LABELS, eps=EPS)
    assert surface.missed == pytest.approx(0, abs=1e-6)
    assert "2 images" in surface.table()


def test_noise_stays_the_same_all_over_the_surface() -> None:
    noisy = Smoothed(NET, sigma=0.1)
    surface = loss_surface(noisy, IMAGES[:1], LABELS[:1], eps=EPS, points=5)
    heights = margins(surface.losses[0, :, 2])
    assert_close(heights.diff().diff(), torch.zeros(3).double(), atol=1e-4, rtol=0)
    assert (
        abs(heights[2] - margins(loss_surface(NET, IMAGES[:1], LABELS[:1]).losses[0, 8, 8])) > 0.01
    )


def test_it_is_saved_with_its_steps(tmp_path: Path) -> None:
    surface = loss_surface(NET, IMAGES, LABELS, eps=EPS, points=3)
    surface.save(tmp_path / "s.json")
    record = json.loads((tmp_path / "s.json").read_text())
    assert record["steps"] == pytest.approx([-EPS, 0, EPS])
    assert torch.tensor(record["losses"]).shape == (2, 3, 3)


@pytest.mark.parametrize(
    ("wrong", "says"), [({"points": 4}, "points = 4"), ({"draws": 0}, "draws")]
)
def test_settings_without_a_meaning_are_refused(wrong: dict[str, int], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        loss_surface(NET, IMAGES, LABELS, eps=EPS, **wrong)  # type: ignore[arg-type]
