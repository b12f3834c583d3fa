import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from igdefense.attacks import L2, Linf, Threat
from igdefense.errors import SettingError
from igdefense.randomness import Streams, generator

THREATS = [Linf(8 / 255), L2(0.5), L2(3.0)]


@pytest.fixture
def images() -> Tensor:
    """Pixels that stay away from 0 and 1."""
    return torch.rand(6, 3, 8, 8, generator=generator("images")) / 2 + 0.25


@pytest.fixture
def rng() -> Streams:
    return Streams(range(100, 106))


@pytest.mark.parametrize("threat", THREATS, ids=repr)
def test_projection_lands_inside_and_leaves_inner_points_alone(
    threat: Threat, images: Tensor
) -> None:
    far = images + 5 * torch.randn(images.shape, generator=generator(1))
    x = threat.project(far, images)
    assert threat.contains(x, images).all()
    assert not threat.contains(far, images).any()
    assert_close(threat.project(x, images), x)


def test_projections_are_the_nearest_points_when_the_box_does_not_bind(images: Tensor) -> None:
    far = images + 0.1
    assert_close(Linf(0.02).project(far, images), images + 0.02)
    side = images[0].numel() ** -0.5
    assert_close(L2(0.5).project(far, images), images + 0.5 * side)


@pytest.mark.parametrize("threat", THREATS, ids=repr)
def test_contains_notices_a_pixel_outside_0_1(threat: Threat, images: Tensor) -> None:
    clean = images.clone()
    clean[:, 0, 0, 0] = 1.0
    x = clean.clone()
    x[3, 0, 0, 0] += 0.01
    assert threat.contains(x, clean).tolist() == [True, True, True, False, True, True]


@pytest.mark.parametrize("threat", THREATS, ids=repr)
def test_a_random_start_is_inside_and_belongs_to_its_stream(
    threat: Threat, images: Tensor, rng: Streams
) -> None:
    x = threat.random(images, rng)
    assert threat.contains(x, images).all()
    assert (threat.size(x, images) > 0.5 * threat.eps).all()
    order = torch.tensor([4, 0])
    assert torch.equal(threat.random(images[order], rng[order]), x[order])


@pytest.mark.parametrize("threat", THREATS, ids=repr)
def test_a_step_has_the_asked_length_and_is_the_steepest(threat: Threat, images: Tensor) -> None:
    gradient = torch.randn(images.shape, generator=generator(2))
    step = threat.ascend(images, gradient, 0.01) - images
    assert_close(threat.size(step, torch.zeros_like(step)), torch.full((6,), 0.01))
    gain = (gradient * step).flatten(1).sum(1)
    other = torch.randn(50, *images.shape[1:], generator=generator(3))
    other *= 0.01 / threat.size(other, torch.zeros_like(other)).view(-1, 1, 1, 1)
    assert (gain > torch.einsum("bchw,nchw->nb", gradient, other)).all()


@pytest.mark.parametrize("eps", [0.0, -0.1, 8.0, float("nan")])
def test_an_impossible_linf_budget_is_refused(eps: float) -> None:
    with pytest.raises(SettingError, match="8/255"):
        Linf(eps)


@pytest.mark.parametrize("eps", [0.0, -1.0, float("inf"), float("nan")])
def test_an_impossible_l2_budget_is_refused(eps: float) -> None:
    with pytest.raises(SettingError, match="positive length"):
        L2(eps)
