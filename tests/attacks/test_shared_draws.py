"""Draws at one point share the clean pass, and say what they would say one by one."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from igdefense import IGDefense, Ranking, Smoothed
from igdefense.attacks.losses import cw
from igdefense.attacks.objective import Objective, evaluate, mean_logits, most_wrong
from igdefense.attacks.steady import filled
from igdefense.attacks.views import EoT, Keyed
from igdefense.expert.relaxed import RelaxedDefense
from igdefense.models.toys import ConvNet
from igdefense.randomness import Streams, generator

DRAWS, IMAGES = 6, 5


@pytest.fixture
def images() -> Tensor:
    return torch.rand(IMAGES, 3, 8, 8, generator=generator("x"))


@pytest.fixture
def labels() -> Tensor:
    return torch.arange(IMAGES) % 3


@pytest.fixture(params=["defense", "relaxed"])
def defense(request: pytest.FixtureRequest) -> nn.Module:
    net = ConvNet(seed=1).eval()
    scores = torch.rand(5, 8, generator=generator("scores"))  # classes x channels
    plain = IGDefense(net, Ranking("1", scores), keep=3, sigma=0.1, temperature=0.5)
    return plain if request.param == "defense" else RelaxedDefense(plain, 1.0)


def view_of(defense: nn.Module) -> EoT:
    return EoT(Keyed(defense, Streams(range(IMAGES))), DRAWS)


def one_by_one(defense: nn.Module, images: Tensor, labels: Tensor) -> tuple[Objective, Tensor]:
    """By the definition: a mean over separate calls."""
    view = Keyed(defense, Streams(range(IMAGES)))
    parts, logits = [], []
    for _ in range(DRAWS):
        x = images.clone().requires_grad_()
        z = view(x)
        losses = cw(z, labels)
        (gradient,) = torch.autograd.grad(losses.sum(), x)
        parts.append((losses.detach(), gradient, (z.argmax(1) != labels).float()))
        logits.append(z.detach())
    loss, gradient, wrong = (torch.stack(part).mean(0) for part in zip(*parts, strict=True))
    return Objective(loss, gradient, wrong > 0.5), torch.stack(logits).mean(0)


def test_loss_gradient_and_outcome_are_means_over_the_draws(
    defense: nn.Module, images: Tensor, labels: Tensor
) -> None:
    ours = evaluate(view_of(defense), images, labels, cw)
    theirs, logits = one_by_one(defense, images, labels)
    assert_close(ours.loss, theirs.loss)
    assert_close(ours.gradient, theirs.gradient)
    assert torch.equal(ours.wrong, theirs.wrong)
    assert_close(mean_logits(view_of(defense), images), logits)
    assert torch.equal(most_wrong(view_of(defense), images, labels, DRAWS), theirs.wrong)


def test_the_clean_images_pass_once_whatever_the_number_of_draws(
    defense: nn.Module, images: Tensor, labels: Tensor
) -> None:
    mean_logits(view_of(defense), images)  # the first call checks where the model is cut
    conv = next(module for module in defense.modules() if isinstance(module, nn.Conv2d))
    rows: list[int] = []
    with conv.register_forward_hook(lambda _, given, __: rows.append(len(given[0]))):
        mean_logits(view_of(defense), images)
    assert sum(rows) == (DRAWS + 1) * len(filled(defense, images))


def test_smoothing_alone_has_nothing_to_share(images: Tensor) -> None:
    assert view_of(Smoothed(ConvNet(seed=1), sigma=0.1)).shared(images) is None


def test_a_layer_that_cannot_be_cut_off_has_nothing_to_share(images: Tensor) -> None:
    class Skipping(nn.Module):
        """The pixels go around the layer."""

        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(11, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(torch.cat([self.layer(x), x], 1).mean((2, 3)))

    net = Skipping().eval()
    ranking = Ranking("layer", torch.rand(4, 8, generator=generator("scores")))
    defense = IGDefense(net, ranking, keep=3, sigma=0.1)
    assert defense.shared(images) is None
    assert view_of(defense)(images).shape == (IMAGES, 4)
