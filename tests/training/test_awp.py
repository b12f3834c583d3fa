"""Adversarial weight perturbation: its shift, the gradient there, and what it leaves alone."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from igdefense.training.awp import AWP, weight_shift
from igdefense.training.recipe import Step
from igdefense.training.recipes import FAT, PGDAT
from training.toy import tiny_batch, tiny_net


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        rng = Generator().manual_seed(0)
        self.weight = nn.Parameter(torch.randn(3, 48, generator=rng))
        self.bias = nn.Parameter(torch.randn(3, generator=rng))

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.weight.T + self.bias


def test_the_shift_of_a_linear_layer_is_along_its_known_gradient() -> None:
    net, (images, labels) = Linear(), tiny_batch()
    shift = weight_shift(net, lambda net: F.cross_entropy(net(images), labels), 0.01)
    with torch.no_grad():
        wrong = net(images).softmax(1) - F.one_hot(labels, 3)
        gradient = wrong.T @ images.flatten(1) / len(images)
        expected = 0.01 * net.weight.norm() * gradient / gradient.norm()
    assert shift.keys() == {"weight"}  # a bias stays
    torch.testing.assert_close(shift["weight"], expected)


def test_the_model_gets_the_gradient_of_the_shifted_weights() -> None:
    net, (images, labels) = tiny_net(), tiny_batch()
    plain = FAT(eps=0.1)
    lost = AWP(plain, gamma=0.1).objective(
        net, images, labels, Step(0, 0.5), Generator().manual_seed(0)
    )
    loss = lost(net)
    loss.backward()
    there = copy.deepcopy(net)
    there.zero_grad()
    raw = plain.objective(net, images, labels, Step(0, 0.5), Generator().manual_seed(0))
    shift = weight_shift(net, raw, 0.1)
    with torch.no_grad():
        for name, by in shift.items():
            there.get_parameter(name).add_(by)
    expected = raw(there)
    expected.backward()
    torch.testing.assert_close(loss, expected)
    assert float(loss.detach()) > float(raw(net).detach())
    for name, value in net.named_parameters():
        torch.testing.assert_close(value.grad, there.get_parameter(name).grad)


def test_looking_for_the_shift_leaves_weights_and_statistics_alone() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    images, labels = tiny_batch()
    weight_shift(net.train(), lambda net: F.cross_entropy(net(images), labels), 0.01)
    torch.testing.assert_close(net.state_dict(), before, rtol=0, atol=0)


@pytest.mark.parametrize(("progress", "perturbed"), [(0.01, False), (0.06, True)])
def test_it_waits_for_the_first_twentieth(progress: float, perturbed: bool) -> None:
    net, (images, labels) = tiny_net(), tiny_batch()
    plain, step = PGDAT(eps=0.1, steps=2), Step(0, progress)
    losses = [
        float(recipe.objective(net, images, labels, step, Generator().manual_seed(0))(net).detach())
        for recipe in (plain, AWP(plain))
    ]
    assert (losses[0] != losses[1]) == perturbed
