"""A6, A9, A10, A12: randomness held still, averaged, voted on, and relatives to craft on."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from hard_defense import confident_net, hard_defense, some_images
from igdefense.attacks import Direct, EoT, Keyed, Linf
from igdefense.attacks.losses import cw
from igdefense.attacks.suites import Surrogate
from igdefense.defenses.ig_defense import IGDefense
from igdefense.defenses.smoothing import Smoothed
from igdefense.expert.frozen import Frozen
from igdefense.expert.relaxed import RelaxedDefense
from igdefense.expert.self_transfer import Easier, ManySamples, OtherKeep, OtherRanking
from igdefense.expert.square_averaged import AveragedSquare
from igdefense.models.fingerprint import identity
from igdefense.models.toys import LinearNet, Noisy
from igdefense.randomness import Streams, seed_of


def test_frozen_noise_is_the_same_at_every_call_and_the_mean_of_its_draws() -> None:
    defense, images = Smoothed(confident_net(), sigma=0.1), some_images(5)
    frozen = Frozen(draws=2)(defense, defense.model)
    assert torch.equal(frozen(images), frozen(images))
    each = [defense(images, [seed_of("known draw", i)] * 5) for i in range(2)]
    assert_close(frozen(images), (each[0] + each[1]) / 2)


def test_frozen_noise_needs_a_defense_that_draws() -> None:
    assert Frozen(draws=1).why_not(LinearNet()) == "the defense draws no noise"
    assert Frozen(draws=1).why_not(Smoothed(LinearNet(), sigma=0.1)) is None


@pytest.mark.parametrize("random", [False, True])
def test_averaged_square_never_raises_the_margin_it_started_from(random: bool) -> None:
    """One query is the start alone; on known draws every later point is the better one."""
    net, images = confident_net(), some_images(6)
    judged: nn.Module = Frozen(draws=4)(Smoothed(net, sigma=0.05), net) if random else net
    labels, rng, threat = net(images).argmax(1), Streams(range(6)), Linf(6 / 255)
    margins = [
        -cw(
            judged(AveragedSquare(threat=threat, queries=n)(judged, images, labels, rng=rng)),
            labels,
        )
        for n in (1, 10, 80)
    ]
    assert (margins[1] <= margins[0] + 1e-6).all()
    assert (margins[2] <= margins[1] + 1e-6).all()
    assert (margins[2] < margins[0]).any()


class Counted(Direct):
    """Counts the images it is asked about."""

    asked = 0

    def __call__(self, x: Tensor, told: Tensor | None = None) -> Tensor:
        self.asked += len(x)
        return super().__call__(x, told)


def test_averaged_square_goes_on_after_an_image_is_broken() -> None:
    net, images = LinearNet(), some_images(3)
    wrong = (net(images).argmax(1) + 1) % 5
    view = Counted(net)
    AveragedSquare(threat=Linf(0.01), queries=9)(view, images, wrong, rng=Streams(range(3)))
    assert view.asked == 3 * (9 + 1)  # the start and nine squares, for all three


def test_on_an_eot_view_square_asks_each_point_as_often_as_there_are_draws() -> None:
    net, images = LinearNet(), some_images(2)
    labels, view = net(images).argmax(1), Counted(net)
    AveragedSquare(threat=Linf(0.01), queries=4)(
        EoT(view, 5), images, labels, rng=Streams(range(2))
    )
    assert view.asked == 2 * (4 + 1) * 5


def test_many_samples_of_the_defense_are_softened_behind() -> None:
    defense = hard_defense(sigma=0.05)
    many = ManySamples(samples=9)(defense, defense.model)
    assert isinstance(many, RelaxedDefense)
    assert many.defense.settings == defense.settings | {"samples": 9}


def test_many_draws_of_any_random_defense_are_the_mean_of_keyed_draws() -> None:
    net, images = LinearNet(), some_images(400)[:1].expand(400, -1, -1, -1)
    noisy = Noisy(net, 0.2)
    noisy.random = True  # type: ignore[assignment]
    many = ManySamples(samples=25)(noisy, net)
    spread = [model(images, list(range(400))).std(0) for model in (noisy, many)]
    assert_close(spread[1] * 5, spread[0], rtol=0.15, atol=0)


def kept(module: nn.Module) -> int:
    assert isinstance(module, RelaxedDefense)
    return int(module.defense.masks[0].sum())


def test_other_relatives_have_other_masks_and_names() -> None:
    defense = hard_defense(sigma=0.05, keep=4)
    relatives: list[Surrogate] = [
        OtherKeep(times=0.5),
        OtherKeep(times=2),
        OtherRanking(kind="absolute"),
        OtherRanking(kind="shuffled"),
    ]
    built = [relative(defense, defense.model) for relative in relatives]
    assert [kept(module) for module in built] == [2, 8, 4, 4]
    names = {identity(module) for module in (defense, *built)}
    assert len(names) == 5


def test_a_relative_that_is_the_defense_itself_is_left_out() -> None:
    defense = hard_defense(keep=16)  # all there are
    assert "changes nothing" in str(OtherKeep(times=2).why_not(defense))
    assert "same neurons" in str(OtherRanking(kind="shuffled").why_not(defense))
    assert OtherKeep(times=2).why_not(hard_defense(keep=4)) is None


def test_a_rival_may_offer_a_relative_of_its_own() -> None:
    class Rival(LinearNet):
        def easier(self) -> nn.Module:
            return confident_net()

    assert "no easier relative" in str(Easier().why_not(LinearNet()))
    assert Easier().why_not(Rival()) is None
    assert isinstance(Easier()(Rival(), LinearNet()), nn.Module)


def test_relatives_keep_the_defenses_other_settings() -> None:
    defense = hard_defense(sigma=0.05, temperature=0.3)
    relative = OtherKeep(times=2)(defense, defense.model)
    assert isinstance(relative, RelaxedDefense)
    assert isinstance(relative.defense, IGDefense)
    assert relative.defense.settings == defense.settings | {"keep": 4}
    assert isinstance(Keyed(relative, Streams([1]))(some_images(1)), Tensor)
