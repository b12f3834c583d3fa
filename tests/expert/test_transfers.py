"""A1 and A2: what is transferred from the base model."""

import torch
from torch import Tensor, nn
from torch.testing import assert_close

from hard_defense import confident_net, hard_defense, some_images
from igdefense.attacks import APGD, Keyed, Linf
from igdefense.attacks.losses import cw
from igdefense.defenses.smoothing import Smoothed
from igdefense.expert.every_target import EveryTarget, asked
from igdefense.expert.noisy_base import NoisyBase
from igdefense.models.fingerprint import identity
from igdefense.models.toys import LinearNet
from igdefense.randomness import Streams


def test_on_two_linear_classes_noisy_base_transfer_ends_where_apgd_does() -> None:
    net, threat = LinearNet(classes=2), Linf(4 / 255)
    images = some_images(8) * 0.8 + 0.1
    labels, rng = net(images).argmax(1), Streams(range(8))
    noisy = Keyed(NoisyBase(sigma=0.1, samples=4)(net, net), rng.child("view"))
    attack = APGD(threat=threat, loss="cw", steps=10, best="highest")
    away = net.weight[1 - labels] - net.weight[labels]
    corner = images + threat.eps * away.sign().view_as(images)
    assert_close(attack(net, images, labels, rng=rng), corner)
    assert_close(attack(noisy, images, labels, rng=rng), corner)


def test_noisy_base_has_the_defenses_noise_or_else_its_own() -> None:
    defense = hard_defense(sigma=0.03)
    chosen = NoisyBase(sigma=0.1, samples=7)
    own, other = chosen(defense, defense.model), chosen(defense.model, defense.model)
    assert isinstance(own, Smoothed)
    assert isinstance(other, Smoothed)
    assert (own.noise.sigma, own.noise.samples, other.noise.sigma) == (0.03, 7, 0.1)


def test_all_defenses_with_one_noise_share_the_noisy_base() -> None:
    few, many = hard_defense(sigma=0.03, keep=2), hard_defense(sigma=0.03, keep=5)
    alone = Smoothed(few.model, sigma=0.03)
    names = {identity(NoisyBase(sigma=0.1)(d, few.model)) for d in (few, many, alone)}
    assert len(names) == 1


class Prefers(nn.Module):
    """A defense that any image fools which its base takes for one class, and no other."""

    def __init__(self, base: nn.Module, fooled_by: int) -> None:
        super().__init__()
        self.base, self.fooled_by = base, fooled_by

    def forward(self, images: Tensor) -> Tensor:
        right = 10 * nn.functional.one_hot(self.labels_of(images), 3).to(images)
        turned = self.base(images).argmax(1) == self.fooled_by
        return torch.where(turned.unsqueeze(1), right.roll(1, 1), right)

    def labels_of(self, images: Tensor) -> Tensor:
        return torch.zeros(len(images), dtype=torch.long)


def test_the_deployed_defense_chooses_among_the_targets() -> None:
    net = LinearNet(classes=3)
    images = some_images(64)
    images = images[net(images).argmax(1) == 0]
    labels, rng = torch.zeros(len(images), dtype=torch.long), Streams(range(len(images)))
    attack = EveryTarget(threat=Linf(0.2), steps=15)
    for wanted in (1, 2):
        x = attack(net, images, labels, rng=rng, chooser=Prefers(net, wanted))
        assert (net(x).argmax(1) == wanted).all()


def test_without_a_chooser_the_largest_margin_is_handed_back() -> None:
    net, images = confident_net(), some_images(12)
    labels, rng = net(images).argmax(1), Streams(range(12))
    points = [
        EveryTarget(threat=Linf(4 / 255), steps=15, targets=count)(net, images, labels, rng=rng)
        for count in (1, 4)
    ]
    few, all_targets = (cw(net(x), labels) for x in points)
    assert (all_targets >= few - 1e-5).all()
    assert (all_targets > few).any()


def test_a_chooser_is_asked_for_the_share_of_wrong_draws() -> None:
    class Third:
        samples, calls = 3, 0

        def __call__(self, x: Tensor) -> Tensor:
            self.calls += 1
            return torch.tensor([[1.0, 0.0] if self.calls % 3 else [0.0, 4.0]]).expand(len(x), 2)

        def __getitem__(self, index: Tensor) -> "Third":
            return self

    rate, margin = asked(Third(), some_images(2), torch.zeros(2, dtype=torch.long))
    assert_close(rate, torch.full((2,), 1 / 3))
    assert_close(margin, torch.full((2,), (-1 - 1 + 4) / 3))
