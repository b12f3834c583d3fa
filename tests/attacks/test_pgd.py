from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.testing import assert_close

from igdefense.attacks import FGSM, GAMA, PGD, Linf
from igdefense.attacks.losses import cross_entropy, cw
from igdefense.models.toys import ConvNet, LinearNet
from igdefense.randomness import Streams, generator

IMAGES = torch.rand(6, 3, 8, 8, generator=generator("images")) / 2 + 0.25
RNG = Streams(range(6))


@dataclass(frozen=True)
class Watched(Linf):
    """Writes down the length of each step, in units of eps."""

    steps: list[float] = field(default_factory=list, compare=False)

    def ascend(self, x: Tensor, gradient: Tensor, step: float | Tensor) -> Tensor:
        self.steps.append(round(float(step) / self.eps, 6))
        return super().ascend(x, gradient, step)


def test_fgsm_moves_every_pixel_by_eps_along_the_sign_of_the_gradient() -> None:
    net = LinearNet(classes=2)
    labels = net(IMAGES).argmax(1)
    uphill = (net.weight[1 - labels] - net.weight[labels]).view_as(IMAGES).sign()
    x = FGSM(threat=Linf(0.01))(net, IMAGES, labels, rng=RNG)
    assert_close(x, IMAGES + 0.01 * uphill)


def test_more_steps_of_pgd_raise_the_loss() -> None:
    net, threat = ConvNet(seed=1), Linf(4 / 255)
    labels = net(IMAGES).argmax(1)
    losses = [
        cross_entropy(net(PGD(threat=threat, steps=n)(net, IMAGES, labels, rng=RNG)), labels).sum()
        for n in (1, 4, 16)
    ]
    assert losses[0] < losses[1] < losses[2]


def test_gama_starts_at_a_corner_and_shortens_its_steps_twice() -> None:
    net, threat = ConvNet(seed=1), Watched(4 / 255)
    labels = net(IMAGES).argmax(1)
    GAMA(threat=threat)(net, IMAGES, labels, rng=RNG)
    assert threat.steps == [1.0] + [2.0] * 60 + [0.2] * 25 + [0.02] * 15


def test_gama_climbs_the_margin_plus_the_weighted_distance_to_the_clean_probabilities() -> None:
    net, eps = ConvNet(seed=1).double(), 4 / 255
    images = IMAGES.double()
    clean = net(images).softmax(1).detach()
    labels = clean.argmax(1)
    noise = RNG.child("start").uniform(images.shape[1:], -1.0).double()
    start = (images + eps * noise.sign()).requires_grad_()
    now = net(start).softmax(1)
    loss = cw(now, labels) + 50 * ((now - clean) ** 2).sum(1)
    (gradient,) = torch.autograd.grad(loss.sum(), start)
    expected = Linf(eps).project(start.detach() + 2 * eps * gradient.sign(), images)
    x = GAMA(threat=Linf(eps), steps=1)(net, images, labels, rng=RNG)
    assert_close(x, expected)
