"""A4, A5, A11: the two passes one by one, and the neurons between them."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from hard_defense import hard_defense, some_images
from igdefense.attacks import Direct, Keyed, Linf
from igdefense.attacks.suites import Surrogate
from igdefense.attacks.views import Told
from igdefense.data.data import Data
from igdefense.defenses.ig_defense import IGDefense
from igdefense.expert.correct_mask import CorrectMask, SecondPass
from igdefense.expert.features import Features
from igdefense.expert.joint_mask import BothPasses, JointMask, Routes, joint_margin
from igdefense.layers import neuron_axis, reading
from igdefense.randomness import Streams
from igdefense.rankings.leave_one_out import leave_one_out


@pytest.fixture
def defended(net_and_layer: tuple[nn.Module, str], data: Data) -> IGDefense:
    net, layer = net_and_layer
    return IGDefense(net, leave_one_out(net, data, layer), 2, sigma=0.1)


def test_the_joint_loss_is_the_smaller_margin() -> None:
    first, second = [5.0, 1.0, 3.0], [2.0, 0.0, 4.0]
    both = torch.tensor([first + second, second + first])
    labels, targets = torch.tensor([0, 2]), torch.tensor([2, 0])
    assert_close(joint_margin(both, labels, targets), torch.tensor([3.0 - 5.0, 2.0 - 4.0]))


def test_both_passes_are_those_of_the_defense(defended: IGDefense, images: Tensor) -> None:
    keys, classes = list(range(len(images))), torch.arange(len(images)) % 3
    found = BothPasses(defended)(images, keys, classes)
    first, state = defended._first_pass(images, keys)
    assert_close(found[:, :3], first)
    assert_close(found[:, 3:], defended.second_pass(state, defended.masks[classes]))


def test_with_a_sure_guess_the_correct_mask_route_is_the_defense(
    defended: IGDefense, images: Tensor
) -> None:
    sure = IGDefense(defended.model, defended.ranking, 2, sigma=0, temperature=1e-6)
    guess = sure.pseudo_label(images).argmax(1)
    route = SecondPass()(sure, sure.model)
    assert_close(route(images, None, guess), sure(images))


def test_features_are_the_mean_activations_of_the_kept_neurons(
    defended: IGDefense, images: Tensor
) -> None:
    with reading(defended.model, defended.ranking.layer) as outputs:
        defended.model(images)
    by_neuron = outputs[0].movedim(neuron_axis(outputs[0]), 1)
    kept = defended.masks[1].nonzero().flatten()
    mean = by_neuron[:, kept].flatten(1).mean(1)
    assert_close(Features()(defended, defended.model)(images)[:, 1], mean)


def test_a_told_view_tells_each_image_its_own() -> None:
    defense, images = hard_defense(), some_images(6)
    classes = torch.tensor([0, 1, 2, 3, 4, 0])
    route = SecondPass()(defense, defense.model)
    view = Told(Direct(route), classes)
    chosen = torch.tensor([4, 1])
    assert_close(view(images), route(images, None, classes))
    assert_close(view[chosen](images[chosen]), route(images, None, classes)[chosen])


def test_a_won_joint_loss_breaks_a_hard_defense() -> None:
    """Guess t and answer t under its mask: with sigma 0 and a sure guess the defense says t."""
    defense, images = hard_defense(), some_images()
    labels = defense(images).argmax(1)
    module = Routes(samples=1)(defense, defense.model)
    x = JointMask(threat=Linf(8 / 255), steps=30)(module, images, labels, rng=Streams(range(32)))
    margins = torch.stack(
        [joint_margin(module(x, None, t), labels, t) for t in torch.arange(5).repeat(32, 1).T]
    )
    won = (margins > 0.2).any(0)
    assert won.sum() > 10
    assert (defense(x).argmax(1) != labels)[won].all()


ATTACKS: dict[str, tuple[JointMask | CorrectMask, Surrogate]] = {
    "joint": (JointMask(threat=Linf(4 / 255), steps=5), Routes(samples=2)),
    "correct": (CorrectMask(threat=Linf(4 / 255), steps=5), SecondPass()),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_neighbours_and_order_change_nothing(name: str) -> None:
    attack, surrogate = ATTACKS[name]
    defense = hard_defense(sigma=0.02).double()
    images, module = some_images(6).double(), surrogate(defense, defense.model)
    labels, rng = defense.model(images).argmax(1), Streams(range(6))

    def run(part: list[int]) -> Tensor:
        chosen = torch.tensor(part)
        random, chooser = (rng[chosen].child(n) for n in ("view", "chooser"))
        view = Keyed(module, random) if name == "joint" else module
        judged = Keyed(defense, chooser)
        x = attack(view, images[chosen], labels[chosen], rng=rng[chosen], chooser=judged)
        assert attack.threat.contains(x, images[chosen]).all()
        return x

    state = torch.random.get_rng_state()
    whole = run([0, 1, 2, 3, 4, 5])
    assert torch.equal(torch.random.get_rng_state(), state)
    for part in ([0, 1, 2], [5, 4, 3, 2, 1, 0]):
        assert_close(run(part), whole[part], atol=1e-5, rtol=0)
