"""An image has the same bits in whatever batch it comes."""

import pytest
import torch
from torch import Tensor, nn

from igdefense import load_data, load_model
from igdefense.attacks.steady import ENOUGH, filled, steady
from igdefense.randomness import generator


class Moody(nn.Module):
    """Says something else when it is shown fewer images than it likes."""

    def __init__(self, likes: int, in_gradients_only: bool = False) -> None:
        super().__init__()
        self.likes, self.in_gradients_only = likes, in_gradients_only
        self.shown: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.shown.append(len(x))
        logits = x.flatten(1)[:, :3]
        if len(x) >= self.likes:
            return logits
        other = logits * 2
        return other - (other - logits).detach() if self.in_gradients_only else other


@pytest.fixture
def images() -> Tensor:
    return torch.rand(ENOUGH, 3, 4, 4, generator=generator("images"))


@pytest.mark.parametrize("in_gradients_only", [False, True])
@pytest.mark.parametrize("likes", [1, 2, 7, ENOUGH])
def test_a_batch_is_filled_to_the_fewest_rows_that_agree_with_many(
    likes: int, in_gradients_only: bool, images: Tensor
) -> None:
    model = Moody(likes, in_gradients_only)
    for count in (1, 3, 7, 12):
        assert torch.equal(steady(model, images[:count]), images[:count].flatten(1)[:, :3])
        assert model.shown[-1] == max(count, likes)


def test_a_model_is_asked_once_which_batches_it_likes(images: Tensor) -> None:
    model = Moody(likes=7)
    steady(model, images[:3])
    asked = len(model.shown)
    steady(model, images[:4])
    assert len(model.shown) == asked + 1


def test_a_large_batch_is_not_filled_and_needs_no_question(images: Tensor) -> None:
    model = Moody(likes=ENOUGH)
    steady(model, images)
    assert model.shown == [ENOUGH]
    assert len(filled(model, images[:0])) == 0


@pytest.mark.parametrize("together", [1, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("kind", ["embedded", "a head of 512 features", "a head of 2,048 features"])
def test_an_image_has_the_same_bits_in_whatever_batch_it_comes(kind: str, together: int) -> None:
    x = load_data("embedded:test", n=ENOUGH).images[:]
    if kind == "embedded":
        model = load_model("embedded")
    else:
        features = 512 if "512" in kind else 2048
        model = nn.Sequential(nn.Conv2d(3, 8, 8, 4), nn.Flatten(), nn.Linear(392, features))
        model.append(nn.Linear(features, 10))

    def bits(x: Tensor) -> list[Tensor]:
        x = x.clone().requires_grad_()
        logits = steady(model, x)
        return [logits.detach(), *torch.autograd.grad(logits.square().sum(), x)]

    for few, many in zip(bits(x[:together]), bits(x), strict=True):
        assert torch.equal(few, many[:together])
