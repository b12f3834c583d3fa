import pyautoattack
import pytest
import torch
from torch import Tensor, nn

from attacks.robust_resnet import needs_robust_resnet, pictures, robust_resnet
from igdefense.attacks import APGD, FABT, L2, AutoAttack, Linf, Square, TargetedAPGD, Threat
from igdefense.errors import SettingError
from igdefense.models.toys import ConvNet
from igdefense.randomness import Streams, generator


def outcomes(
    net: nn.Module, images: Tensor, threat: Threat, queries: int, targets: int
) -> tuple[Tensor, Tensor]:
    """Which images our AutoAttack leaves robust, and which pyautoattack's."""
    labels = net(images).argmax(1)
    attack = AutoAttack.standard(threat, queries=queries)
    ours = attack(net, images, labels, rng=Streams(range(len(images))))
    norm = type(threat).__name__
    oracle = pyautoattack.AutoAttack(net, norm=norm, eps=threat.eps, seed=0)
    oracle.square.n_queries = queries
    oracle.apgd_targeted.n_target_classes = oracle.fab.n_target_classes = targets
    theirs, _ = oracle.run_standard_evaluation(images, labels)
    assert threat.contains(ours, images).all()
    return net(ours).argmax(1) == labels, net(theirs).argmax(1) == labels


@pytest.mark.parametrize("threat", [Linf(4 / 255), L2(0.15)], ids=repr)
def test_autoattack_agrees_with_pyautoattack(threat: Threat) -> None:
    images = torch.rand(16, 3, 8, 8, generator=generator("x"))
    ours, theirs = outcomes(ConvNet(seed=1), images, threat, queries=100, targets=4)
    assert 3 < theirs.sum() < 13  # it is a real comparison
    assert torch.equal(ours, theirs)


@needs_robust_resnet
def test_apgd_agrees_with_pyautoattack_on_a_robust_model() -> None:
    net, images, threat = robust_resnet(), pictures(8), Linf(6 / 255)
    labels = net(images).argmax(1)
    ours = APGD(threat=threat, steps=20)(net, images, labels, rng=Streams(range(8)))
    oracle = pyautoattack.autoattack.APGDAttack(net, n_iter=20, eps=threat.eps, seed=0)
    theirs = oracle.perturb(images, labels)
    broken = net(theirs).argmax(1) != labels
    assert 1 < broken.sum() < 7
    assert torch.equal(net(ours).argmax(1) != labels, broken)


@pytest.mark.slow
@needs_robust_resnet
def test_autoattack_agrees_with_pyautoattack_on_a_robust_model() -> None:
    ours, theirs = outcomes(robust_resnet(), pictures(64), Linf(4 / 255), queries=5000, targets=9)
    assert 10 < theirs.sum() < 54
    assert (ours == theirs).float().mean() >= 0.99
    assert ours.float().mean() <= theirs.float().mean() + 0.005


def test_standard_stronger_and_rand_have_the_published_budgets() -> None:
    threat = Linf(8 / 255)
    assert AutoAttack.standard(threat).attacks == (
        APGD(threat=threat, loss="ce", steps=100, restarts=1),
        TargetedAPGD(threat=threat, loss="dlr", steps=100, restarts=1, targets=None),
        FABT(threat=threat, steps=100, restarts=1, targets=None),
        Square(threat=threat, queries=5000, restarts=1),
    )
    assert AutoAttack.stronger(threat).attacks == (
        APGD(threat=threat, steps=200, restarts=10),
        TargetedAPGD(threat=threat, steps=200, restarts=10),
        FABT(threat=threat, steps=100, restarts=10),
        Square(threat=threat, queries=5000, restarts=5),
    )
    rand = AutoAttack.rand(threat)
    assert rand.attacks == (APGD(threat=threat, loss="ce"), APGD(threat=threat, loss="dlr"))
    assert rand.samples == 20


def test_each_attack_sees_only_what_the_earlier_left() -> None:
    net, threat = ConvNet(seed=1), Linf(4 / 255)
    images = torch.rand(16, 3, 8, 8, generator=generator("x"))
    labels = net(images).argmax(1)
    seen: list[int] = []

    def count(attack: Square, view: object, images: Tensor, *rest: Tensor, rng: Streams) -> Tensor:
        seen.append(len(images))
        return images

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Square, "__call__", count)
        apgd = APGD(threat=threat, steps=20)
        attacks = (Square(threat=threat), apgd, Square(threat=threat))
        x = AutoAttack(threat=threat, attacks=attacks)(net, images, labels, rng=Streams(range(16)))
    robust = int((net(x).argmax(1) == labels).sum())
    assert 0 < robust < 16
    assert seen == [16, robust]


def test_attacks_of_another_threat_model_are_refused() -> None:
    with pytest.raises(SettingError, match="attacks within"):
        AutoAttack(threat=Linf(0.1), attacks=(APGD(threat=Linf(0.2)),))
    with pytest.raises(SettingError, match="attacks within"):
        AutoAttack(threat=Linf(0.1), attacks=())
