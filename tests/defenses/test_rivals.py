"""What holds for every rival: one row in the table below is all a new one needs."""

import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from igdefense.attacks.steady import steady
from igdefense.defenses.rivals.anti_adversary import AntiAdversary
from igdefense.defenses.rivals.head import Head
from igdefense.defenses.rivals.hedge import VARIANTS, Hedge
from igdefense.defenses.rivals.inner import Gradient, check_gradient
from igdefense.defenses.rivals.sodef import SODEF, features_of
from igdefense.errors import ModelError, SettingError
from igdefense.models.fingerprint import identity, weights_fingerprint
from igdefense.randomness import generator
from igdefense.split import split
from nets import CLASSES, LAYERS, make_net

Make = Callable[[nn.Module, str, Gradient], nn.Module]


def sodef(net: nn.Module, layer: str, gradient: Gradient) -> SODEF:
    features = features_of(split(net, layer), torch.rand(2, 3, 8, 8)).shape[1]
    head = Head(features, CLASSES, layer=layer, base=weights_fingerprint(net))
    return SODEF(net, head.reset(generator("head")), gradient=gradient)


RIVALS: dict[str, Make] = {
    "hedge": lambda net, _, way: Hedge(net, steps=3, gradient=way),
    "hedge-croce": lambda net, _, way: Hedge(net, "croce", steps=3, gradient=way),
    "anti-adversary": lambda net, _, way: AntiAdversary(net, gradient=way),
    "anti-adversary-kept": lambda net, _, way: AntiAdversary(net, eps=0.1, gradient=way),
    "sodef": sodef,
}
WAYS: tuple[Gradient, ...] = ("around", "through")
every_rival = pytest.mark.parametrize("make", RIVALS.values(), ids=RIVALS)
both_ways = pytest.mark.parametrize("way", WAYS)


def call(defense: nn.Module, images: Tensor) -> Tensor:
    keys = [f"image {i}" for i in range(len(images))]
    return defense(images, keys) if getattr(defense, "random", False) else defense(images)


def gradient(defense: nn.Module, images: Tensor) -> Tensor:
    x = images.clone().requires_grad_()
    logits = call(defense, x)
    (found,) = torch.autograd.grad(logits[:, 0].sum(), x)
    return found


@every_rival
@both_ways
@pytest.mark.parametrize("name", dict(LAYERS))
def test_every_net_can_be_defended_and_attacked(
    make: Make, way: Gradient, name: str, images: Tensor
) -> None:
    net = make_net(name)
    defense = make(net, dict(LAYERS)[name], way)
    with torch.no_grad():
        logits = call(defense, images)
    found = gradient(defense, images)
    assert logits.shape == (9, CLASSES)
    assert_close(call(defense, images).detach(), logits)
    assert found.isfinite().all()
    assert (found.flatten(1).abs().sum(1) > 0).sum() > 6  # a pushed image may meet dead ReLUs
    assert all(parameter.grad is None for parameter in net.parameters())


@pytest.mark.parametrize("layer", [layer for name, layer in LAYERS if name == "resnet"])
def test_sodef_takes_features_from_any_layer(layer: str, images: Tensor) -> None:
    assert sodef(make_net("resnet"), layer, "through")(images).shape == (9, CLASSES)


@every_rival
@both_ways
def test_a_neighbour_changes_no_bit_of_an_image(make: Make, way: Gradient, images: Tensor) -> None:
    defense = make(make_net("resnet"), "layer4", way)
    keys = list(range(9)) if getattr(defense, "random", False) else None

    def ask(chosen: slice) -> tuple[Tensor, Tensor]:
        x = images[chosen].clone().requires_grad_()
        logits = steady(defense, x, keys and keys[chosen])
        (found,) = torch.autograd.grad(logits[:, 0].sum(), x)
        return logits, found

    whole, slopes = ask(slice(None))
    for chosen in (slice(0, 1), slice(3, 6), slice(2, 9)):
        logits, found = ask(chosen)
        assert torch.equal(logits, whole[chosen])
        assert torch.equal(found, slopes[chosen])


@every_rival
def test_a_rival_neither_uses_nor_heeds_the_global_generator(make: Make, images: Tensor) -> None:
    defense = make(make_net("cnn"), "last", "around")
    before = torch.get_rng_state()
    first = call(defense, images)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(123)
    assert torch.equal(call(defense, images), first)


@every_rival
def test_the_way_of_differentiating_names_another_defense_of_the_same_logits(
    make: Make, images: Tensor
) -> None:
    net = make_net("cnn")
    one, other = (make(net, "last", way) for way in WAYS)
    assert identity(one) != identity(other)
    assert torch.equal(call(one, images), call(other, images))
    assert not torch.allclose(gradient(one, images), gradient(other, images), rtol=1e-3)


@every_rival
def test_a_rival_travels_to_another_process(make: Make, images: Tensor) -> None:
    defense = make(make_net("cnn"), "last", "around")
    call(defense, images)
    again = pickle.loads(pickle.dumps(defense))
    assert identity(again) == identity(defense)
    assert torch.equal(call(again, images), call(defense, images))


@every_rival
def test_dtype_follows_the_images(make: Make, images: Tensor) -> None:
    defense = make(make_net("cnn"), "last", "through").double()
    assert call(defense, images.double()).dtype == torch.double


@every_rival
def test_a_model_in_train_mode_is_refused(make: Make) -> None:
    net = make_net("cnn")
    with pytest.raises(ModelError, match="train mode"):
        make(net.train(), "last", "around")


def test_an_unknown_way_of_differentiating_is_refused() -> None:
    with pytest.raises(SettingError, match="gradient = 'over'; expected around or through"):
        check_gradient("over")


def test_settings_that_are_no_walk_are_refused() -> None:
    net = make_net("cnn")
    with pytest.raises(SettingError, match=r"steps = -1; the inner loop needs at least 1"):
        Hedge(net, steps=-1)
    with pytest.raises(SettingError, match=r"sums from the second on"):
        Hedge(net, steps=1)
    with pytest.raises(SettingError, match=f"expected one of {', '.join(VARIANTS)}"):
        Hedge(net, "wu")
    with pytest.raises(SettingError, match=r"steps = 0"):
        AntiAdversary(net, steps=0)
    with pytest.raises(SettingError, match=r"step = -0.15; expected a positive length"):
        AntiAdversary(net, step=-0.15)
    with pytest.raises(SettingError, match=r"eps = 8 is outside"):
        AntiAdversary(net, eps=8)
