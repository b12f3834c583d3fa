import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from igdefense.attacks import APGD, Direct, EoT, Keyed, Linf, as_view
from igdefense.attacks.losses import cw
from igdefense.attacks.objective import evaluate, mean_logits, misclassified
from igdefense.errors import ModelError, SettingError
from igdefense.models.toys import LinearNet, Noisy
from igdefense.randomness import Streams, generator, seed_of

SIGMA = 0.1


@pytest.fixture
def images() -> Tensor:
    """Pixels that stay away from 0 and 1."""
    return torch.rand(6, 3, 8, 8, generator=generator("images")) / 2 + 0.25


@pytest.fixture
def rng() -> Streams:
    return Streams(range(100, 106))


@pytest.fixture
def linear() -> LinearNet:
    return LinearNet()


@pytest.fixture
def noisy(linear: LinearNet) -> Noisy:
    return Noisy(linear, SIGMA)


def test_a_plain_module_is_seen_directly(linear: LinearNet, images: Tensor) -> None:
    view = as_view(linear)
    assert isinstance(view, Direct)
    assert as_view(view) is view
    assert_close(view[torch.tensor([0])](images), linear(images))


def test_keys_name_the_image_and_its_query(noisy: Noisy, images: Tensor, rng: Streams) -> None:
    view = Keyed(noisy, rng)
    for query in range(3):
        keys = [seed_of(seed, "draw", query) for seed in rng.seeds]
        assert_close(view(images), noisy(images, keys))


def test_a_narrowed_view_counts_queries_together_with_the_whole(
    noisy: Noisy, images: Tensor, rng: Streams
) -> None:
    view = Keyed(noisy, rng)
    odd = torch.tensor([False, True] * 3)
    last = view[odd][torch.tensor([2])]
    view(images)
    view[odd](images[odd])
    draws = last(images[5:]), view(images)
    for image, draw, query in ((5, draws[0][0], 2), (5, draws[1][5], 3), (0, draws[1][0], 1)):
        key = [seed_of(rng.seeds[image], "draw", query)]
        assert_close(draw, noisy(images[image : image + 1], key)[0])


def test_a_keyed_view_refuses_other_images(noisy: Noisy, images: Tensor, rng: Streams) -> None:
    with pytest.raises(ValueError, match="6 images; it was shown 2"):
        Keyed(noisy, rng)(images[:2])


def test_eot_averages_loss_gradient_and_class_over_draws(images: Tensor, rng: Streams) -> None:
    two = LinearNet(classes=2)
    noisy, labels, samples = Noisy(two, SIGMA), two(images).argmax(1), 7
    here = evaluate(EoT(Keyed(noisy, rng), samples), images, labels, cw)
    keys = [[seed_of(seed, "draw", n) for seed in rng.seeds] for n in range(samples)]
    noise = torch.stack([noisy.noise(images, draw) for draw in keys])
    uphill = (two.weight[1 - labels] - two.weight[labels]).view_as(images)
    per_draw = cw(two(images), labels) + (uphill * noise).flatten(2).sum(2)
    assert_close(here.loss, per_draw.mean(0))
    assert_close(here.gradient, uphill)
    assert torch.equal(here.wrong, (per_draw > 0).float().mean(0) > 0.5)
    assert torch.equal(misclassified(EoT(Keyed(noisy, rng), samples), images, labels), here.wrong)
    assert_close(mean_logits(EoT(Keyed(noisy, rng), samples), images), two(images + noise.mean(0)))


def test_eot_changes_nothing_on_a_deterministic_model(linear: LinearNet, images: Tensor) -> None:
    labels = linear(images).argmax(1)
    once = evaluate(Direct(linear), images, labels, cw)
    often = evaluate(EoT(linear, 4), images, labels, cw)
    assert_close(once.loss, often.loss)
    assert_close(once.gradient, often.gradient)


def test_eot_needs_a_draw(linear: LinearNet) -> None:
    with pytest.raises(SettingError, match="samples = 0"):
        EoT(linear, 0)


class Hard(nn.Module):
    """One-hot predictions, so without gradients."""

    def forward(self, images: Tensor) -> Tensor:
        return nn.functional.one_hot(images.flatten(1)[:, :5].argmax(1), 5).float()


def test_a_gradient_attack_names_the_missing_gradient(images: Tensor, rng: Streams) -> None:
    labels = torch.zeros(6, dtype=torch.long)
    with pytest.raises(ModelError, match="RayS or Square"):
        APGD(threat=Linf(0.1), best="highest")(Hard(), images, labels, rng=rng)
