from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from pyautoattack.autopgd_base import APGDAttack, APGDAttack_targeted
from torch import Generator, Tensor
from torch.testing import assert_close

from igdefense.attacks import APGD, L2, Linf, TargetedAPGD, Threat, View
from igdefense.attacks.attack import require_known
from igdefense.attacks.best import Best
from igdefense.attacks.climb import checkpoints
from igdefense.attacks.losses import LOSSES, LossName, cross_entropy
from igdefense.errors import SettingError
from igdefense.models.toys import ConvNet, LinearNet
from igdefense.randomness import Streams, generator


@dataclass(frozen=True)
class TheirLinf(Linf):
    """Starts where pyautoattack does, given the same global generator."""

    def random(self, clean: Tensor, rng: Generator | Streams) -> Tensor:
        noise = 2 * torch.rand(clean.shape) - 1
        largest = noise.flatten(1).abs().amax(1).view(-1, 1, 1, 1)
        return (clean + self.eps * noise / largest).clamp(0, 1)


@dataclass(frozen=True)
class TheirL2(L2):
    """Starts where pyautoattack does, given the same global generator."""

    def random(self, clean: Tensor, rng: Generator | Streams) -> Tensor:
        return self.ascend(clean, torch.randn(clean.shape), self.eps).clamp(0, 1)


@pytest.fixture
def net() -> ConvNet:
    return ConvNet(seed=1)


@pytest.fixture
def images() -> Tensor:
    return torch.rand(16, 3, 8, 8, generator=generator("x"))


@pytest.fixture
def labels(net: ConvNet, images: Tensor) -> Tensor:
    return net(images).argmax(1)


@pytest.fixture
def rng() -> Streams:
    return Streams(range(16))


@pytest.mark.parametrize("threat", [TheirLinf(4 / 255), TheirL2(0.15)], ids=repr)
def test_apgd_takes_the_steps_of_pyautoattack(
    threat: Threat, net: ConvNet, images: Tensor, labels: Tensor, rng: Streams
) -> None:
    torch.manual_seed(0)
    ours = APGD(threat=threat, steps=50)(net, images, labels, rng=rng)
    norm = type(threat).__name__.removeprefix("Their")
    theirs = APGDAttack(net, n_iter=50, eps=threat.eps, norm=norm, seed=0).perturb(images, labels)
    broken = net(theirs).argmax(1) != labels
    assert 3 < broken.sum() < 13  # it is a real comparison
    assert torch.equal(net(ours).argmax(1) != labels, broken)
    assert_close(ours, theirs, atol=1e-4, rtol=0)


def test_targeted_apgd_breaks_the_images_that_pyautoattack_breaks(
    net: ConvNet, images: Tensor, labels: Tensor, rng: Streams
) -> None:
    ours = TargetedAPGD(threat=Linf(4 / 255), steps=30)(net, images, labels, rng=rng)
    attack = APGDAttack_targeted(net, n_iter=30, eps=4 / 255, seed=0, n_target_classes=4)
    theirs = attack.perturb(images, labels)
    assert torch.equal(net(ours).argmax(1) != labels, net(theirs).argmax(1) != labels)


def test_checkpoints_are_those_of_the_paper() -> None:
    assert list(checkpoints(100)) == [22, 41, 57, 70, 80, 87, 93, 99]
    assert list(checkpoints(3)) == [1, 2, 3]


def test_adversarial_returns_misclassified_points_and_clean_images(
    net: ConvNet, images: Tensor, labels: Tensor, rng: Streams
) -> None:
    labels[0] = (labels[0] + 1) % 5
    x = APGD(threat=Linf(4 / 255), steps=20)(net, images, labels, rng=rng)
    moved = (x != images).flatten(1).any(1)
    assert torch.equal(moved[1:], (net(x).argmax(1) != labels)[1:])
    assert 0 < moved.sum() < 15
    assert not moved[0]  # was misclassified clean


@pytest.mark.parametrize("loss", LOSSES)
def test_highest_never_returns_the_clean_image(
    loss: LossName, net: ConvNet, images: Tensor, labels: Tensor, rng: Streams
) -> None:
    attack = APGD(threat=Linf(2 / 255), steps=20, loss=loss, best="highest")
    x = attack(net, images, labels, rng=rng)
    assert (attack.threat.size(x, images) > 1 / 255).all()
    assert (LOSSES[loss](net(x), labels) > LOSSES[loss](net(images), labels)).all()


def test_targeted_highest_never_returns_the_clean_image(
    net: ConvNet, images: Tensor, labels: Tensor, rng: Streams
) -> None:
    attack = TargetedAPGD(threat=Linf(4 / 255), steps=10, targets=2, best="highest")
    assert (attack.threat.size(attack(net, images, labels, rng=rng), images) > 1 / 255).all()


@pytest.mark.parametrize("best", ["highest", "strict"])
def test_restarts_never_lower_the_loss_or_mend_an_image(
    best: Best, net: ConvNet, images: Tensor, labels: Tensor, rng: Streams
) -> None:
    points = [
        APGD(threat=Linf(3 / 255), steps=5, restarts=n, best=best)(net, images, labels, rng=rng)
        for n in (1, 4)
    ]
    once, often = (cross_entropy(net(x), labels) for x in points)
    wrong = [net(x).argmax(1) != labels for x in points]
    if best == "highest":
        assert (often >= once).all()
        assert (often > once).any()
    else:
        assert (wrong[1] >= wrong[0]).all()


def test_strict_breaks_what_adversarial_breaks_at_a_higher_loss(
    net: ConvNet, images: Tensor, labels: Tensor, rng: Streams
) -> None:
    def run(best: Best) -> Tensor:
        return APGD(threat=Linf(4 / 255), steps=20, best=best)(net, images, labels, rng=rng)

    adversarial, strict, highest = run("adversarial"), run("strict"), run("highest")
    broken = net(adversarial).argmax(1) != labels
    assert torch.equal(net(strict).argmax(1) != labels, broken)
    losses = [cross_entropy(net(x), labels) for x in (adversarial, strict, highest)]
    assert (losses[1] >= losses[0])[broken].all()
    assert (losses[2] >= losses[1]).all()
    assert torch.equal(strict[~broken], highest[~broken])


class Flaky:
    """Says anything but the truth at every third call."""

    def __init__(self, model: LinearNet, samples: int) -> None:
        self.model, self.samples, self.calls = model, samples, 0

    def __call__(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.model(x) * (-1 if self.calls % 3 == 0 else 1)

    def __getitem__(self, index: Tensor) -> View:
        return self


@pytest.mark.parametrize(("samples", "fooled"), [(1, True), (3, False)])
def test_with_eot_a_lucky_draw_is_not_a_success(
    samples: int, fooled: bool, images: Tensor, rng: Streams
) -> None:
    linear = LinearNet()
    labels = linear(images).argmax(1)
    attack = APGD(threat=Linf(1e-5), steps=9)
    x = attack(Flaky(linear, samples), images, labels, rng=rng)
    assert (linear(x).argmax(1) == labels).all()
    assert (x != images).flatten(1).any(1).all() == fooled


@pytest.mark.parametrize("settings", [{"steps": 0}, {"restarts": -1}])
def test_settings_below_one_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(SettingError, match=r"APGD needs (steps|restarts) >= 1, got"):
        APGD(threat=Linf(0.1), **settings)  # type: ignore[arg-type]


def test_unknown_words_are_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingError, match=r"no loss 'hinge'; choose ce, dlr, cw, ce-rescaled\."):
        require_known(SimpleNamespace(loss="hinge"), "loss", *LOSSES)
