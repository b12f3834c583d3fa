"""A linear classifier's margin decides robustness exactly; every strong attack must find it."""

import pytest
import torch
from torch import Tensor

from igdefense.attacks import (
    APGD,
    FABT,
    FGSM,
    GAMA,
    L2,
    PGD,
    Attack,
    AutoAttack,
    Linf,
    RayS,
    Square,
    TargetedAPGD,
    Threat,
)
from igdefense.models.toys import LinearNet
from igdefense.randomness import Streams, generator

NEAR = torch.tensor([0.8, 0.95, 0.98, 1.02, 1.05, 1.25])  # radii, in units of eps


@pytest.fixture
def rng() -> Streams:
    return Streams(range(100, 106))


def finders(threat: Threat) -> list[Attack]:
    """Attacks that reach the nearest boundary of a linear net among several."""
    return [
        GAMA(threat=threat),
        APGD(threat=threat, loss="dlr", steps=50),
        APGD(threat=threat, loss="cw", steps=50, best="highest"),
        TargetedAPGD(threat=threat, steps=30),
        TargetedAPGD(threat=threat, loss="cw", steps=30, best="strict"),
        FABT(threat=threat, steps=20),
        AutoAttack.standard(threat, steps=20, queries=5, fab_steps=5),
    ]


def climbers(threat: Threat) -> list[Attack]:
    """Attacks that may head for a mixture of classes, so exact only where there are two."""
    return [
        PGD(threat=threat, steps=40, step=0.1),
        FGSM(threat=threat),
        APGD(threat=threat, loss="ce", steps=50),
        APGD(threat=threat, loss="ce", steps=50, best="highest"),
        APGD(threat=threat, loss="ce", steps=50, best="strict"),
        AutoAttack.rand(threat, steps=20, samples=2),
    ]


def images_at(net: LinearNet, threat: Threat, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Images so far from their decision boundary, in units of eps, and their classes."""
    images = torch.rand(300, 3, 8, 8, generator=generator("many")) / 2 + 0.25
    labels = net(images).argmax(1)
    exact = net.linf_radius if isinstance(threat, Linf) else net.l2_radius
    farthest = exact(images, labels).topk(len(wanted)).indices
    images, labels = images[farthest], labels[farthest]
    shrink = wanted * threat.eps / exact(images, labels)
    assert (shrink < 1).all()
    return 0.5 + (images - 0.5) * shrink.view(-1, 1, 1, 1), labels


@pytest.mark.parametrize("attack", [*finders(Linf(0.01)), *finders(L2(0.15))], ids=repr)
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_attacks_find_the_margin(attack: Attack, classes: int, rng: Streams) -> None:
    net = LinearNet(classes=classes)
    images, labels = images_at(net, attack.threat, NEAR)
    x = attack(net, images, labels, rng=rng)
    assert torch.equal(net(x).argmax(1) == labels, NEAR > 1)


@pytest.mark.parametrize("attack", [*climbers(Linf(0.01)), *climbers(L2(0.15))], ids=repr)
def test_climbing_attacks_find_the_margin_of_two_classes(attack: Attack, rng: Streams) -> None:
    net = LinearNet(classes=2)
    images, labels = images_at(net, attack.threat, NEAR)
    x = attack(net, images, labels, rng=rng)
    assert torch.equal(net(x).argmax(1) == labels, NEAR > 1)


@pytest.mark.parametrize("stop", [False, True])
def test_rays_finds_the_margin_without_gradients(stop: bool, rng: Streams) -> None:
    net = LinearNet(classes=2)
    attack = RayS(threat=Linf(0.01), queries=1500, stop_at_eps=stop)
    images, labels = images_at(net, attack.threat, NEAR)
    x = attack(net, images, labels, rng=rng)
    assert torch.equal(net(x).argmax(1) == labels, NEAR > 1)
    assert torch.equal(x[NEAR > 1], images[NEAR > 1])


@pytest.mark.parametrize(("threat", "near"), [(Linf(0.01), 0.6), (L2(0.15), 0.3)])
def test_square_breaks_what_is_well_inside_the_margin_only(
    threat: Threat, near: float, rng: Streams
) -> None:
    net, wanted = LinearNet(classes=2), torch.tensor([near, 1.02] * 3)
    images, labels = images_at(net, threat, wanted)
    x = Square(threat=threat, queries=1200)(net, images, labels, rng=rng)
    assert torch.equal(net(x).argmax(1) == labels, wanted > 1)


def test_the_margin_is_where_the_class_changes() -> None:
    linear, images = LinearNet(), torch.rand(6, 3, 8, 8, generator=generator("images"))
    labels = linear(images).argmax(1)
    away = linear.weight - linear.weight[labels].unsqueeze(1)  # (images, classes, pixels)
    for radius, direction in (
        (linear.linf_radius(images, labels), away.sign()),
        (linear.l2_radius(images, labels), away / away.norm(dim=2, keepdim=True).clamp(min=1e-9)),
    ):
        for t, changed in ((0.999, False), (1.001, True)):
            step = t * radius.view(-1, 1, 1) * direction
            x = images.flatten(1).unsqueeze(1) + step
            wrong = ((x - 0.5) @ linear.weight.T).argmax(2) != labels.unsqueeze(1)
            assert torch.equal(wrong.any(1), torch.full((6,), changed))
