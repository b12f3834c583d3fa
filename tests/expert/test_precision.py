"""A8 in double precision: the same defense, less rounding."""

import torch
from torch import nn
from torch.testing import assert_close

from hard_defense import confident_net, hard_defense, some_images
from igdefense.attacks import APGD, Keyed, Linf
from igdefense.attacks.objective import gradient_of
from igdefense.expert.rescaled import Doubled, DoublePrecision
from igdefense.models.fingerprint import identity
from igdefense.models.toys import LinearNet
from igdefense.randomness import Streams


def test_the_view_is_the_defense_in_double_precision_on_the_same_draws() -> None:
    defense, images, keys = hard_defense(sigma=0.02), some_images(8), list(range(8))
    view = DoublePrecision()(defense, defense.model)
    found = view(images, keys)
    assert found.dtype == torch.double
    assert_close(found, defense(images, keys).double(), atol=1e-3, rtol=1e-4)
    assert next(defense.model.parameters()).dtype == torch.float  # the judged one is unchanged
    assert (
        identity(view) == identity(DoublePrecision()(defense, defense.model)) != identity(defense)
    )


def test_it_sees_a_gradient_where_single_precision_rounds_it_away() -> None:
    """Softmax is 1 to single precision at a lead of 17; at 25, double still tells it from 1."""
    net = LinearNet(classes=2)
    with torch.no_grad():
        net.weight.zero_()
        net.weight[0, 0] = 50.0
    images = torch.ones_like(some_images(2))
    slopes = []
    for model in (net, DoublePrecision()(net, net)):
        x = images.clone().requires_grad_()
        slopes.append(gradient_of(model(x).softmax(1)[:, 0], x).abs().sum())
    assert slopes[0] == 0
    assert slopes[1] > 0


def test_what_its_draws_share_changes_no_logit() -> None:
    defense, images, keys = hard_defense(sigma=0.02), some_images(4), list(range(4))
    view = Doubled(defense)
    shared = view.shared(images)
    assert shared is not None
    assert shared.dtype == torch.double
    assert_close(view(images, keys, shared), view(images, keys))


def test_an_attack_on_it_moves_single_precision_images() -> None:
    defense, images = hard_defense(sigma=0.02), some_images(4)
    labels, rng = confident_net()(images).argmax(1), Streams(range(4))
    view = Keyed(DoublePrecision()(defense, defense.model), rng.child("view"))
    attack = APGD(threat=Linf(0.02), loss="ce-rescaled", steps=3, best="strict")
    x = attack(view, images, labels, rng=rng)
    assert x.dtype == torch.float
    assert attack.threat.contains(x, images).all()
    assert isinstance(view.defense, nn.Module)
