"""A13: attacks that begin where another ended."""

import pytest
import torch
from torch import Tensor

from hard_defense import confident_net, some_images
from igdefense.attacks import APGD, Linf, TargetedAPGD
from igdefense.attacks.attack import Attack
from igdefense.attacks.losses import cw
from igdefense.expert.every_target import EveryTarget
from igdefense.randomness import Streams

THREAT = Linf(4 / 255)


@pytest.fixture
def start() -> Tensor:
    net, images = confident_net(), some_images(16)
    attack = APGD(threat=THREAT, loss="cw", steps=10, best="highest")
    return attack(net, images, net(images).argmax(1), rng=Streams(range(16)))


@pytest.mark.parametrize(
    "attack",
    [
        APGD(threat=THREAT, loss="cw", steps=1, best="highest"),
        APGD(threat=THREAT, loss="cw", steps=1, best="strict"),
        TargetedAPGD(threat=THREAT, loss="cw", steps=1, best="strict"),
        EveryTarget(threat=THREAT, steps=1),
    ],
    ids=repr,
)
def test_a_warm_start_never_mends_an_image_nor_leaves_the_budget(
    attack: Attack, start: Tensor
) -> None:
    net, images = confident_net(), some_images(16)
    labels, rng = net(images).argmax(1), Streams(range(16))
    x = attack(net, images, labels, rng=rng, start=start)  # type: ignore[call-arg]
    assert THREAT.contains(x, images).all()
    broken, still = (net(points).argmax(1) != labels for points in (start, x))
    assert broken.any()
    assert (still >= broken).all()


def test_a_warm_start_never_lowers_the_loss_and_raises_some(start: Tensor) -> None:
    net, images = confident_net(), some_images(16)
    labels, rng = net(images).argmax(1), Streams(range(16))
    attack = APGD(threat=THREAT, loss="cw", steps=6, best="highest")
    before, after = (
        cw(net(x), labels) for x in (start, attack(net, images, labels, rng=rng, start=start))
    )
    assert (after >= before - 1e-5).all()
    assert (after > before + 1e-3).any()


def test_a_start_outside_the_budget_is_brought_back() -> None:
    net, images = confident_net(), some_images(4)
    labels, rng = net(images).argmax(1), Streams(range(4))
    attack = APGD(threat=THREAT, steps=1, best="highest")
    x = attack(net, images, labels, rng=rng, start=torch.ones_like(images))
    assert THREAT.contains(x, images).all()
