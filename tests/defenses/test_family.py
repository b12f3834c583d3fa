"""The relatives of IG-Defense: each is another defense, or the base model, in a known case."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from igdefense.data.data import Data
from igdefense.defenses.averaged import AveragedDefense
from igdefense.defenses.ig_defense import IGDefense, load_defense
from igdefense.defenses.layered import LayeredDefense
from igdefense.defenses.static_head import class_masked, spectral
from igdefense.errors import LayerError, OutputError, SettingError
from igdefense.layers import edited, scale_neurons
from igdefense.models.fingerprint import identity
from igdefense.rankings.controls import random_for
from igdefense.rankings.leave_one_out import leave_one_out
from igdefense.rankings.ranking import Ranking
from nets import make_net

KEYS = list(range(9))


@pytest.fixture
def ranking(cnn: nn.Module, data: Data) -> Ranking:
    return leave_one_out(cnn, data, "last")


def test_a_hard_mask_is_the_limit_of_soft_ones(
    cnn: nn.Module, ranking: Ranking, images: Tensor
) -> None:
    hard, soft, softer = (
        IGDefense(cnn, ranking, 3, sigma=0.1, temperature=t) for t in (0, 1e-8, 1.0)
    )
    assert_close(hard(images, KEYS), soft(images, KEYS))
    assert not torch.allclose(hard(images, KEYS), softer(images, KEYS), atol=1e-3)
    assert hard.pseudo_label(images, KEYS).sum(1).tolist() == [1.0] * 9


def test_averaging_the_masked_pass_is_by_hand(
    cnn: nn.Module, ranking: Ranking, images: Tensor
) -> None:
    settings: dict[str, Any] = {"sigma": 0.5, "samples": 4, "noise": "frozen", "temperature": 0.1}
    defense = AveragedDefense(cnn, ranking, 3, **settings)
    noisy = defense.noise.around(images)
    guess = (cnn(noisy).view(4, 9, 3).mean(0) / 0.1).softmax(1)
    assert guess.std(0).max() > 0.01  # images have masks of their own
    mask = guess @ ranking.masks(3)
    with edited(cnn, "last", lambda out: scale_neurons(out, mask.repeat(4, 1))):
        expected = cnn(noisy).view(4, 9, 3).mean(0)
    assert_close(defense(images), expected)
    plain = IGDefense(cnn, ranking, 3, **settings)
    assert not torch.allclose(defense(images), plain(images), atol=1e-4)


def test_without_noise_averaging_changes_nothing(
    net_and_layer: tuple[nn.Module, str], images: Tensor
) -> None:
    net, layer = net_and_layer
    ranking = random_for(net, images, layer)
    plain, averaged = (kind(net, ranking, 2, sigma=0) for kind in (IGDefense, AveragedDefense))
    assert_close(averaged(images), plain(images))


def test_an_averaged_defense_comes_back_from_its_folder(
    cnn: nn.Module, ranking: Ranking, images: Tensor, tmp_path: Path
) -> None:
    defense = AveragedDefense(cnn, ranking, 3, sigma=0.1, samples=2)
    defense.save(tmp_path / "saved")
    again = load_defense(tmp_path / "saved", cnn)
    assert type(again) is AveragedDefense
    assert torch.equal(again(images, KEYS), defense(images, KEYS))
    assert identity(again) == identity(defense)
    assert identity(defense) != identity(IGDefense(cnn, ranking, 3, sigma=0.1, samples=2))


def test_one_layer_of_several_is_the_plain_defense(
    net_and_layer: tuple[nn.Module, str], images: Tensor
) -> None:
    net, layer = net_and_layer
    ranking = random_for(net, images, layer)
    plain = IGDefense(net, ranking, 2, sigma=0.1, samples=2)
    assert_close(
        LayeredDefense(net, [ranking], 2, sigma=0.1, samples=2)(images, KEYS), plain(images, KEYS)
    )


def test_each_layer_has_its_own_mask(cnn: nn.Module, images: Tensor) -> None:
    first, last = (random_for(cnn, images, layer) for layer in ("conv1", "last"))
    defense = LayeredDefense(cnn, [first, last], [2, 5], sigma=0, temperature=0.1)
    guess = (cnn(images) / 0.1).softmax(1)
    with (
        edited(cnn, "conv1", lambda out: scale_neurons(out, guess @ first.masks(2))),
        edited(cnn, "last", lambda out: scale_neurons(out, guess @ last.masks(5))),
    ):
        expected = cnn(images)
    assert_close(defense(images), expected)
    whole = LayeredDefense(cnn, [first, last], [6, 10], sigma=0)
    assert_close(whole(images), cnn(images))


def test_several_layers_are_named_by_all_that_they_depend_on(
    cnn: nn.Module, images: Tensor
) -> None:
    first, other = (random_for(cnn, images, "conv1", seed) for seed in (0, 1))
    last = random_for(cnn, images, "last")
    one, two = (LayeredDefense(cnn, [r, last], 2) for r in (first, other))
    assert len({identity(d) for d in (one, two, one.varied(rekeep=lambda _, k: k + 1))}) == 3
    assert identity(one.varied()) == identity(one)
    with pytest.raises(SettingError, match="different layers"):
        LayeredDefense(cnn, [first, other], 2)
    with pytest.raises(OutputError, match="several layers"):
        one.save("nowhere")


def test_class_masks_give_each_logit_its_own_neurons(cnn: nn.Module, images: Tensor) -> None:
    ranking = random_for(cnn, images, "pool")
    logits = class_masked(cnn, ranking, 3, images)(images)
    for label, mask in enumerate(ranking.masks(3)):
        with edited(cnn, "pool", partial(scale_neurons, mask=mask.expand(9, -1))):
            assert_close(logits[:, label], cnn(images)[:, label])


@pytest.mark.parametrize(
    ("name", "layer"), [("mlp", "middle"), ("cnn", "pool"), ("resnet", "layer4")]
)
def test_all_neurons_and_all_directions_are_the_base_model(
    name: str, layer: str, data: Data, images: Tensor
) -> None:
    net = make_net(name)
    ranking = random_for(net, images, layer)
    if name == "mlp":
        with pytest.raises(LayerError, match="not known to be affine"):
            spectral(net, data, layer, 1)
        return
    assert_close(class_masked(net, ranking, ranking.neurons, images)(images), net(images))
    assert_close(spectral(net, data, layer, ranking.neurons)(images), net(images))


class Flat(nn.Sequential):
    """Pixels are the features, and these the weights of the head."""

    def __init__(self, weight: Tensor) -> None:
        linear = nn.Linear(weight.shape[1], weight.shape[0])
        super().__init__(nn.Flatten(), linear)
        with torch.no_grad():
            linear.weight.copy_(weight)
            linear.bias.zero_()
        self.eval()


def test_the_spectral_head_keeps_the_directions_of_largest_score() -> None:
    """Features along the axes with variances 9, 4, 1, and weights that turn the order around."""
    axes = torch.eye(3) * torch.tensor([3.0, 2.0, 1.0])
    data = Data((axes / 3).view(3, 1, 1, 3), torch.tensor([0, 1, 0]), ["a", "b"])
    net = Flat(torch.tensor([[1.0, 2.0, 0.0], [1.0, 0.0, 2.0]]))
    # class a: 9 x 1, 4 x 4, 0 -> the second axis; class b: 9 x 1, 0, 1 x 4 -> the first
    head = spectral(net, data, "0", 1)
    assert_close(head.weight.squeeze(2), torch.tensor([[1.0, 2.0, 0.0], [1.0, 0.0, 0.0]]))
    with pytest.raises(SettingError, match="directions = 4 is outside 1 to 3"):
        spectral(net, data, "0", 4)
