"""A3: forward the defense, backward a softer pseudo-label."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from hard_defense import hard_defense, some_images
from igdefense.attacks import APGD, Linf
from igdefense.attacks.objective import gradient_of
from igdefense.data.data import Data
from igdefense.defenses.ig_defense import IGDefense
from igdefense.expert.relaxed import Relaxed, RelaxedDefense
from igdefense.models.toys import LinearNet
from igdefense.randomness import Streams
from igdefense.rankings.leave_one_out import leave_one_out
from igdefense.split import activations_of


@pytest.mark.parametrize("sigma", [0.0, 0.05])
def test_forward_is_the_defense_to_the_last_bit(sigma: float) -> None:
    defense, images, keys = hard_defense(sigma=sigma), some_images(), list(range(32))
    relaxed = Relaxed(temperature=1.0)(defense, defense.model)
    assert torch.equal(relaxed(images, keys), defense(images, keys))


def test_at_its_own_temperature_the_gradient_is_the_defenses() -> None:
    defense = hard_defense(temperature=2.0)
    x = some_images(6).requires_grad_()
    grads = [
        torch.autograd.grad(model(x).square().sum(), x)[0]
        for model in (defense, RelaxedDefense(defense, 2.0))
    ]
    assert_close(grads[1], grads[0])


def test_the_gradient_is_that_of_the_softmax_at_the_other_temperature(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With x fixed in the second pass, d(out)/dz is the softmax's Jacobian in closed form."""
    defense, t = hard_defense(), 3.0
    images = some_images(4)
    first = defense.model(images).detach().requires_grad_()
    state = activations_of(defense._split_at().before(images)).detach()
    relaxed = RelaxedDefense(defense, t)
    monkeypatch.setattr(defense, "_first_pass", lambda *_: (first, state.clone()))
    (found,) = torch.autograd.grad(relaxed(images)[:, 0].sum(), first)
    hard = (first / 0.01).softmax(1).detach().requires_grad_()
    out = defense.second_pass(state.clone(), hard @ defense.masks)
    (by_guess,) = torch.autograd.grad(out[:, 0].sum(), hard)
    p = (first / t).softmax(1)
    assert_close(found, p * (by_guess - (p * by_guess).sum(1, keepdim=True)) / t)


def test_it_breaks_what_the_vanishing_gradient_protects() -> None:
    defense, images = hard_defense(), some_images()
    labels, rng = defense(images).argmax(1), Streams(range(32))
    x = images.clone().requires_grad_()
    guess = defense.pseudo_label(x).amax(1)
    assert (gradient_of(guess, x).flatten(1) == 0).all(1).sum() > 20  # of 32: no way to turn it
    attack = APGD(threat=Linf(4 / 255), loss="cw", steps=30, best="strict")
    plain, relaxed = (
        defense(attack(model, images, labels, rng=rng)).argmax(1) == labels
        for model in (defense, RelaxedDefense(defense, 1.0))
    )
    assert (plain & ~relaxed).sum() >= 5
    assert relaxed.sum() < plain.sum()


def test_it_is_for_masks_only() -> None:
    assert Relaxed(temperature=1.0).why_not(LinearNet()) == "the defense has no mask"
    assert Relaxed(temperature=1.0).why_not(hard_defense()) is None


def test_it_works_at_every_layer(
    net_and_layer: tuple[torch.nn.Module, str], data: Data, images: Tensor
) -> None:
    net, layer = net_and_layer
    defense = IGDefense(net, leave_one_out(net, data, layer), 2, sigma=0.1)
    keys = list(range(len(images)))
    assert torch.equal(RelaxedDefense(defense, 1.0)(images, keys), defense(images, keys))
