"""The anti-adversary on a linear model, and what differentiating it means."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from igdefense.defenses.rivals.anti_adversary import AntiAdversary
from igdefense.models.toys import ConvNet, LinearNet
from igdefense.randomness import generator


@pytest.fixture
def images() -> Tensor:
    return torch.rand(6, 3, 8, 8, generator=generator("images")) / 2 + 0.25


def towards(net: LinearNet, images: Tensor) -> Tensor:
    """The step that raises the likelihood of the predicted class of two."""
    guess = net(images).argmax(1)
    apart = net.weight[guess] - net.weight[1 - guess]
    return apart.sign().view_as(images).detach()


@pytest.fixture
def net() -> LinearNet:
    """Two classes, and slopes so gentle that no probability is rounded to 1."""
    net = LinearNet(classes=2).eval()
    with torch.no_grad():
        net.weight.mul_(0.01)
    return net


def test_two_steps_of_015_towards_the_predicted_class(net: LinearNet, images: Tensor) -> None:
    end = images + 0.3 * towards(net, images)
    assert (end < 0).any()  # as described, nothing is clamped
    assert_close(AntiAdversary(net)(images), net(end), atol=1e-4, rtol=0)


def test_with_eps_the_end_is_projected_and_clamped(net: LinearNet) -> None:
    images = torch.rand(6, 3, 8, 8, generator=generator("wide"))
    end = (images + 0.1 * towards(net, images)).clamp(0, 1)
    assert_close(AntiAdversary(net, eps=0.1)(images), net(end), atol=1e-4, rtol=0)


def test_around_skips_the_steps(images: Tensor) -> None:
    net = ConvNet().eval()
    seen = list[Tensor]()
    net.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].detach()))
    found = slope(AntiAdversary(net), images)
    assert len(seen) == 4  # the guess, two steps, the prediction
    assert_close(found, slope(net, seen[3]))


def test_through_a_step_on_a_linear_model_has_a_closed_form(images: Tensor) -> None:
    """d/dx of x + s g / mean|g|, with g = W'(e_y - p) and so dg/dx = -W'(diag p - pp')W."""
    net, step = LinearNet(classes=4).eval(), 0.01
    weight = net.weight.detach()
    found = slope(AntiAdversary(net, steps=1, step=step, gradient="through"), images).flatten(1)
    for image, row in zip(images, found, strict=True):
        p = net(image[None])[0].softmax(0).detach()
        g = weight.T @ (torch.eye(4)[p.argmax()] - p)
        bend = -weight.T @ (torch.diag(p) - torch.outer(p, p)) @ weight
        assert_close(row, weight[0] + step / g.abs().mean() * bend @ weight[0])


def test_through_two_steps_is_the_chain_of_both(images: Tensor) -> None:
    net = ConvNet().eval()
    guess = net(images).argmax(1)

    def by_hand(x: Tensor) -> Tensor:
        clean = x
        for _ in range(2):
            loss = nn.functional.cross_entropy(net(x), guess, reduction="sum")
            (g,) = torch.autograd.grad(-loss, x, create_graph=True)
            smooth = g / g.abs().mean((1, 2, 3), keepdim=True).detach()
            x = x + 0.02 * (smooth + (g.sign() - smooth).detach())
            x = x.clamp(clean - 0.03, clean + 0.03).clamp(0, 1)
        return net(x)

    defense = AntiAdversary(net, step=0.02, eps=0.03, gradient="through")
    assert_close(slope(defense, images), slope(by_hand, images))


def test_a_prediction_rounded_to_certainty_stops_the_steps_and_bends_nothing(
    images: Tensor,
) -> None:
    net = LinearNet().eval()
    with torch.no_grad():
        net.weight.mul_(1e5)  # every inner slope is exactly zero
    defense = AntiAdversary(net, gradient="through")
    assert torch.equal(defense(images), net(images))
    assert_close(slope(defense, images), slope(net, images))


def slope(function: object, images: Tensor) -> Tensor:
    x = images.clone().requires_grad_()
    (found,) = torch.autograd.grad(function(x)[:, 0].sum(), x)  # type: ignore[operator]
    return found
