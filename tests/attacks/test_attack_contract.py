"""What holds for every attack: one row in the table below is all a new one needs."""

from dataclasses import FrozenInstanceError
from typing import ClassVar

import pytest
import torch
from torch import Generator, Tensor
from torch.testing import assert_close

from igdefense.attacks import (
    APGD,
    FABT,
    FGSM,
    GAMA,
    L2,
    PGD,
    Attack,
    AutoAttack,
    EoT,
    Keyed,
    Linf,
    RayS,
    Square,
    TargetedAPGD,
    Threat,
    View,
)
from igdefense.expert.every_target import EveryTarget
from igdefense.expert.square_averaged import AveragedSquare
from igdefense.models.toys import ConvNet, Noisy
from igdefense.randomness import Streams, generator

LINF, EUCLIDEAN = Linf(4 / 255), L2(0.15)  # some images fall, some stand


def table(threat: Threat) -> list[Attack]:
    return [
        PGD(threat=threat, steps=5),
        FGSM(threat=threat, step=1.25, random_start=True),
        GAMA(threat=threat, steps=8),
        APGD(threat=threat, steps=8, restarts=2),
        TargetedAPGD(threat=threat, steps=6, targets=2),
        FABT(threat=threat, steps=6, restarts=2, targets=2),
        Square(threat=threat, queries=25, restarts=2),
        EveryTarget(threat=threat, steps=5, targets=2),
        AveragedSquare(threat=threat, queries=15),
        AutoAttack.standard(threat, steps=5, targets=2, queries=10, fab_steps=3),
    ]


ATTACKS = [
    *table(LINF),
    *table(EUCLIDEAN),
    PGD(threat=LINF, steps=5, loss="dlr"),
    FGSM(threat=LINF),
    APGD(threat=LINF, steps=8, loss="dlr", best="highest", restarts=2),
    APGD(threat=LINF, steps=8, loss="cw", best="strict", restarts=2),
    APGD(threat=LINF, steps=8, loss="ce-rescaled", best="strict"),
    TargetedAPGD(threat=LINF, steps=6, loss="cw", best="highest"),
    AutoAttack.rand(LINF, steps=5, samples=3),
    RayS(threat=LINF, queries=60),
    RayS(threat=LINF, queries=60, votes=3, stop_at_eps=True),
]
every_attack = pytest.mark.parametrize("attack", ATTACKS, ids=repr)


@pytest.fixture
def conv() -> ConvNet:
    """In double precision, so that rounding does not flip the sign of a gradient."""
    return ConvNet(seed=1).double()


@pytest.fixture
def images() -> Tensor:
    return torch.rand(6, 3, 8, 8, generator=generator("images")).double()


@pytest.fixture
def rng() -> Streams:
    return Streams(range(100, 106))


@pytest.fixture
def labels(conv: ConvNet, images: Tensor) -> Tensor:
    """The predictions, and one wrong label."""
    labels = conv(images).argmax(1)
    labels[2] = (labels[2] + 1) % 5
    return labels


@every_attack
def test_attack_stays_inside_its_threat_model(
    attack: Attack, conv: ConvNet, images: Tensor, labels: Tensor, rng: Streams
) -> None:
    before = images.clone()
    x = attack(conv, images, labels, rng=rng)
    assert attack.threat.contains(x, images).all()
    assert (x.shape, x.dtype, x.requires_grad) == (images.shape, images.dtype, False)
    assert torch.equal(images, before)


@every_attack
def test_attack_leaves_the_model_and_the_global_generator_alone(
    attack: Attack, conv: ConvNet, images: Tensor, labels: Tensor, rng: Streams
) -> None:
    state = torch.random.get_rng_state()
    attack(conv, images, labels, rng=rng)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in conv.parameters())


@every_attack
def test_the_memory_format_of_the_images_changes_nothing(
    attack: Attack, conv: ConvNet, images: Tensor, labels: Tensor, rng: Streams
) -> None:
    last = images.contiguous(memory_format=torch.channels_last)
    x = attack(conv, last, labels, rng=rng)
    assert_close(x, attack(conv, images, labels, rng=rng), atol=1e-5, rtol=0)


@every_attack
@pytest.mark.parametrize("kind", ["direct", "random", "averaged"])
def test_neighbours_and_order_change_nothing(
    attack: Attack, kind: str, conv: ConvNet, images: Tensor, labels: Tensor, rng: Streams
) -> None:
    def run(chosen: Tensor) -> Tensor:
        view: View | ConvNet = conv
        if kind != "direct":
            view = Keyed(Noisy(conv, 0.05), rng[chosen].child("view"))
        if kind == "averaged":
            view = EoT(view, 2)
        return attack(view, images[chosen], labels[chosen], rng=rng[chosen])

    whole = run(torch.arange(6))
    for part in ([0, 1, 2], [5, 4, 3, 2, 1, 0]):
        chosen = torch.tensor(part)
        # DLR is flat at 1 where the label ranks third: rounding then grows to 2e-6
        assert_close(run(chosen), whole[chosen], atol=1e-5, rtol=0)


@every_attack
def test_attack_takes_a_plain_generator_and_no_images(
    attack: Attack, conv: ConvNet, images: Tensor, labels: Tensor
) -> None:
    x = attack(conv, images, labels, rng=Generator().manual_seed(0))
    assert_close(attack(conv, images, labels, rng=Generator().manual_seed(0)), x)
    assert attack(conv, images[:0], labels[:0], rng=Streams([])).shape == (0, *images.shape[1:])


@every_attack
def test_attack_is_a_frozen_value_with_a_version(attack: Attack) -> None:
    assert isinstance(attack, Attack)
    assert type(attack).version >= 1
    assert ClassVar[int] == type(attack).__annotations__["version"]
    with pytest.raises(FrozenInstanceError):
        attack.threat = Linf(0.1)  # type: ignore[misc]
