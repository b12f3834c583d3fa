"""Hedge Defense on models where every point of its walk is known."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from igdefense.defenses.rivals.hedge import VARIANTS, Hedge, spread
from igdefense.errors import SettingError
from igdefense.models.toys import LinearNet
from igdefense.randomness import Streams, generator, seed_of
from nets import make_net

KEYS = tuple("abcdef")


@pytest.fixture
def images() -> Tensor:
    """Pixels so far from 0 and 1 that no walk gets there."""
    return torch.rand(6, 3, 8, 8, generator=generator("images")) / 2 + 0.25


@pytest.fixture
def net() -> LinearNet:
    """Two classes: the summed cross-entropy rises straight away from the boundary."""
    return LinearNet(classes=2).eval()


def away(net: LinearNet, x: Tensor) -> Tensor:
    """The sign of every pixel's step: away from the boundary between the two classes."""
    logits = net(x)
    side = (logits[:, 0] - logits[:, 1]).sign().detach()
    return side[:, None, None, None] * (net.weight[0] - net.weight[1]).sign().view(3, 8, 8)


def start(images: Tensor, eps: float, seed: int = 0) -> Tensor:
    streams = Streams([seed_of(seed, "hedge", key) for key in KEYS])
    return streams.uniform(images.shape[1:], -eps, eps)


def test_the_gain_is_the_divergence_of_the_prediction_from_uniform() -> None:
    logits = torch.randn(4, 5, generator=generator("logits"))
    uniform = torch.full((4, 5), 1 / 5)
    divergence = nn.functional.kl_div(logits.log_softmax(1), uniform, reduction="none").sum(1)
    assert_close(spread(logits) - torch.log(torch.tensor(5.0)), divergence)


def test_the_variant_of_croce_predicts_at_the_corner_away_from_the_boundary(
    net: LinearNet, images: Tensor
) -> None:
    end = images + 8 / 255 * away(net, images)
    assert_close(Hedge(net, "croce")(images), net(end), atol=1e-4, rtol=0)


def test_the_end_stays_in_the_unit_cube(net: LinearNet) -> None:
    images = torch.rand(6, 3, 8, 8, generator=generator("wide")).round()
    end = (images + 8 / 255 * away(net, images)).clamp(0, 1)
    assert_close(Hedge(net, "croce")(images), net(end), atol=1e-4, rtol=0)


def test_the_variant_of_the_authors_sums_the_logits_of_points_2_to_20(
    net: LinearNet, images: Tensor
) -> None:
    first = images + start(images, 0.031)
    step = 0.007 * away(net, first)
    walk = [(first - images + i * step).clamp(-0.031, 0.031) for i in range(1, 20)]
    expected = torch.stack([net(images + delta) for delta in walk]).sum(0)
    assert_close(Hedge(net, "authors")(images, KEYS), expected, atol=1e-3, rtol=0)


def test_a_random_start_comes_from_the_seed_and_the_key(net: LinearNet, images: Tensor) -> None:
    defense = Hedge(net, "croce-random", steps=1, seed=3)
    first = images + start(images, 8 / 255, seed=3)
    delta = (first - images + 4 / 255 * away(net, first)).clamp(-8 / 255, 8 / 255)
    assert_close(defense(images, KEYS), net(images + delta), atol=1e-4, rtol=0)
    assert not torch.equal(defense(images), defense(images))


def test_only_a_random_start_makes_it_random(net: LinearNet, images: Tensor) -> None:
    assert [Hedge(net, name).random for name in VARIANTS] == [True, False, True]
    defense = Hedge(net, "croce")
    assert torch.equal(defense(images), defense(images))
    with pytest.raises(SettingError, match="2 keys for 6 images"):
        Hedge(net)(images, KEYS[:2])


def test_around_is_the_base_models_gradient_at_the_points_predicted_from(images: Tensor) -> None:
    net, seen = make_net("cnn"), list[Tensor]()
    net.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].detach()))

    def summed_over(points: list[Tensor]) -> Tensor:
        return torch.stack([slope(net, x) for x in points]).sum(0)

    found = slope(Hedge(net, "croce", steps=4), images)
    assert_close(found, summed_over([seen[4]]))
    seen.clear()
    found = slope(lambda x: Hedge(net, steps=4)(x, KEYS), images)
    assert_close(found, summed_over(seen[1:4]))


def slope(function: object, images: Tensor) -> Tensor:
    x = images.clone().requires_grad_()
    (found,) = torch.autograd.grad(function(x)[:, 0].sum(), x)  # type: ignore[operator]
    return found


def test_its_easier_relative_is_itself_with_five_steps(net: LinearNet, images: Tensor) -> None:
    defense = Hedge(net, "croce", gradient="through", seed=3)
    expected = Hedge(net, "croce", steps=5, gradient="through", seed=3)
    assert defense.easier().identity() == expected.identity() != defense.identity()
    assert Hedge(net, "croce", steps=2).easier().walk.steps == 2
