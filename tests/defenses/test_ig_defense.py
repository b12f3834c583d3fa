import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from igdefense.data.data import Data
from igdefense.defenses.ig_defense import IGDefense, defend, load_defense
from igdefense.defenses.smoothing import Smoothed
from igdefense.errors import ModelError, OutputError, RankingError, SettingError
from igdefense.layers import edited, scale_neurons
from igdefense.models.architectures import build
from igdefense.models.origin import mark_origin
from igdefense.rankings.leave_one_out import leave_one_out
from igdefense.rankings.ranking import Ranking
from nets import make_net


def ranked(net: nn.Module, data: Data, layer: str) -> Ranking:
    return leave_one_out(net, data, layer)


def by_definition(defense: IGDefense, noisy: Tensor, images: Tensor) -> Tensor:
    """The paper's three steps, each a whole forward pass with a hook."""
    net, samples = defense.model, defense.noise.samples
    first = torch.stack([net(part) for part in noisy.chunk(samples)]).mean(0)
    guess = (first / defense.temperature).softmax(1)
    mask = guess @ defense.ranking.masks(defense.keep)
    with edited(net, defense.ranking.layer, lambda out: scale_neurons(out, mask)):
        return net(images)


@pytest.mark.parametrize("samples", [1, 3])
def test_the_defense_is_the_papers_three_steps(
    net_and_layer: tuple[nn.Module, str], data: Data, images: Tensor, samples: int
) -> None:
    net, layer = net_and_layer
    ranking = ranked(net, data, layer)
    defense = defend(net, ranking, 2, sigma=0.1, samples=samples, noise="frozen", temperature=0.1)
    noisy = defense.noise.around(images)
    assert_close(defense(images), by_definition(defense, noisy, images))


def test_without_smoothing_the_first_pass_is_clean(
    net_and_layer: tuple[nn.Module, str], data: Data, images: Tensor
) -> None:
    net, layer = net_and_layer
    defense = defend(net, ranked(net, data, layer), 2, sigma=0, temperature=0.1)
    assert_close(defense(images), by_definition(defense, images, images))


def test_keeping_every_neuron_without_noise_changes_nothing(
    net_and_layer: tuple[nn.Module, str], data: Data, images: Tensor
) -> None:
    net, layer = net_and_layer
    ranking = ranked(net, data, layer)
    assert_close(defend(net, ranking, ranking.neurons, sigma=0)(images), net(images))


def test_gradients_flow_through_both_passes(data: Data, images: Tensor) -> None:
    net = make_net("cnn")
    defense = defend(net, ranked(net, data, "last"), 3, sigma=0.1, noise="frozen", temperature=1.0)
    noise = defense.noise.around(torch.zeros_like(images))

    def gradient(function: object) -> Tensor:
        x = images.clone().requires_grad_()
        function(x)[:, 0].sum().backward()  # type: ignore[operator]
        assert x.grad is not None
        return x.grad

    through_both = gradient(lambda x: by_definition(defense, x + noise, x))
    through_second = gradient(lambda x: by_definition(defense, (x + noise).detach(), x))
    assert_close(gradient(defense), through_both)
    assert not torch.allclose(through_both, through_second)


@pytest.fixture
def defense(data: Data) -> IGDefense:
    net = make_net("cnn")
    return defend(net, ranked(net, data, "last"), 3, sigma=0.2, temperature=0.5, seed=7)


def test_fresh_noise_differs_between_calls_and_repeats_with_the_seed(
    defense: IGDefense, images: Tensor
) -> None:
    first, second = defense(images), defense(images)
    assert not torch.equal(first, second)
    again = defend(defense.model, defense.ranking, 3, sigma=0.2, temperature=0.5, seed=7)
    assert_close(again(images), first, rtol=0, atol=0)


def test_frozen_noise_is_one_set_of_images_for_every_input(
    defense: IGDefense, images: Tensor
) -> None:
    frozen = defend(defense.model, defense.ranking, 3, sigma=0.2, samples=2, noise="frozen")
    noise = frozen.noise.around(torch.zeros_like(images)).unflatten(0, (2, 9))
    assert_close(noise, noise[:, :1].expand_as(noise), rtol=0, atol=0)
    assert not torch.equal(noise[0], noise[1])
    assert_close(frozen(images), frozen(images), rtol=0, atol=0)


def test_the_global_generator_is_neither_used_nor_heeded(
    defense: IGDefense, images: Tensor
) -> None:
    before = torch.get_rng_state()
    keyed = defense(images, keys=range(9))
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(123)
    assert_close(defense(images, keys=range(9)), keyed, rtol=0, atol=0)


def test_keyed_noise_does_not_depend_on_the_batch(defense: IGDefense, images: Tensor) -> None:
    whole = defense(images, keys=[f"image {i}" for i in range(9)])
    alone = torch.cat([defense(images[i : i + 1], keys=[f"image {i}"]) for i in range(9)])
    assert_close(alone, whole)
    assert not torch.allclose(defense(images, keys=range(9)), whole)


def test_noise_has_the_given_standard_deviation_and_is_not_clamped(defense: IGDefense) -> None:
    white = torch.ones(64, 3, 8, 8)
    noise = defense.noise.around(white, keys=range(64)) - 1
    assert noise.std().item() == pytest.approx(0.2, rel=0.03)
    assert noise.max() > 0.4


def test_noisy_and_clean_inputs_share_one_batch(data: Data) -> None:
    net = make_net("resnet")
    images = torch.rand(100, 3, 8, 8)  # a large batch is not cut either
    defense = defend(net, ranked(net, data, "layer4"), 3, sigma=0.1)
    defense(images)
    batches: list[int] = []
    first = net.get_submodule("conv1")
    forward = first.forward
    # Not a hook: a layer that somebody watches gets the two apart.
    first.forward = lambda x: batches.append(len(x)) or forward(x)  # type: ignore[func-returns-value]
    defense(images)
    assert batches == [2 * len(images)]


def test_without_noise_what_comes_before_the_layer_runs_once(data: Data, images: Tensor) -> None:
    net = make_net("resnet")
    defense = defend(net, ranked(net, data, "layer4"), 3, sigma=0)
    defense(images)
    batches = []
    net.get_submodule("conv1").register_forward_hook(
        lambda _, inputs, __: batches.append(len(inputs[0]))
    )
    defense(images)
    assert batches == [len(images)]


def test_a_copy_of_a_defense_follows_its_own_model(defense: IGDefense, images: Tensor) -> None:
    twin = copy.deepcopy(defense)
    assert_close(twin(images, keys=range(9)), defense(images, keys=range(9)))
    with torch.no_grad():
        defense.model.get_parameter("fc.weight").zero_()
    assert twin(images).std() > 0


def test_dtype_follows_the_images(data: Data, images: Tensor) -> None:
    net = make_net("cnn")
    defense = defend(net, ranked(net, data, "last"), 3).double()
    assert defense(images.double()).dtype == torch.double


def test_a_defense_saved_to_a_folder_comes_back_the_same(tmp_path: Path) -> None:
    net = mark_origin(
        build("resnet18-w2", 3).eval(), {"arch": "resnet18-w2", "classes": 3, "function": None}
    )
    x = torch.rand(6, 3, 32, 32)
    data = Data(x, torch.arange(6) % 3, ["a", "b", "c"])
    defense = defend(net, leave_one_out(net, data, "layer4"), 5, sigma=0.1, seed=3)
    defense.save(tmp_path / "saved")
    again = load_defense(tmp_path / "saved")
    assert again.settings == defense.settings
    assert_close(again(x, keys=range(6)), defense(x, keys=range(6)), rtol=0, atol=0)


def test_a_defense_of_a_model_made_in_python_needs_that_model_back(
    defense: IGDefense, images: Tensor, tmp_path: Path
) -> None:
    defense.save(tmp_path)
    with pytest.raises(ModelError, match="pass it"):
        load_defense(tmp_path)
    again = load_defense(tmp_path, model=defense.model)
    assert_close(again(images, keys=range(9)), defense(images, keys=range(9)))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": "igdefense-defense-1"}'])
def test_a_folder_without_a_whole_defense_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "defense.json").write_text(content)
    with pytest.raises(OutputError, match=r"defense"):
        load_defense(tmp_path)


def test_a_ranking_of_another_model_is_refused(data: Data) -> None:
    ranking = ranked(make_net("cnn"), data, "last")
    other = make_net("cnn")
    with torch.no_grad():
        other.get_parameter("fc.bias").add_(1)
    with pytest.raises(RankingError, match="fingerprint"):
        defend(other, ranking, 3)
    defend(other, ranking, 3, force=True)


def test_a_ranking_of_the_wrong_shape_is_refused(images: Tensor) -> None:
    with pytest.raises(RankingError, match="3 classes and 10 neurons"):
        defend(make_net("cnn"), Ranking("last", torch.rand(4, 7)), 2)(images)


def test_a_model_in_train_mode_is_refused(data: Data) -> None:
    net = make_net("cnn")
    ranking = ranked(net, data, "last")
    with pytest.raises(ModelError, match="train mode"):
        defend(net.train(), ranking, 3)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("keep", 0), ("keep", 11), ("sigma", -0.1), ("samples", 0), ("temperature", -0.1)],
)
def test_settings_outside_their_range_are_refused(
    defense: IGDefense, setting: str, value: float
) -> None:
    settings = {"keep": 3, setting: value}
    with pytest.raises(SettingError, match=setting):
        defend(defense.model, defense.ranking, **settings)  # type: ignore[arg-type]


def test_smoothing_alone_averages_logits_under_noise(images: Tensor) -> None:
    net = make_net("cnn")
    smoothed = Smoothed(net, sigma=0.2, samples=4, noise="frozen")
    copies = smoothed.noise.around(images).chunk(4)
    assert_close(smoothed(images), torch.stack([net(x) for x in copies]).mean(0))


def test_smoothing_without_noise_is_the_model(images: Tensor) -> None:
    net = make_net("cnn")
    assert_close(Smoothed(net, sigma=0)(images), net(images))
