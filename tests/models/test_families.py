"""ConvNeXt, ViT, Swin, DenseNet, VGG, EfficientNet and MLP-Mixer: ranked and defended."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from igdefense import Data, clip_dissect, defend, layers, leave_one_out
from igdefense.errors import LayerError
from igdefense.models.penultimate import recommended_layer
from igdefense.rankings.cache import Cache
from igdefense.rankings.similarities import soft_wpmi
from igdefense.types import Images
from models.families import FAMILIES

CASES = [(name, place) for name in FAMILIES for place in ("penultimate", "hidden")]


@cache
def family(name: str) -> nn.Module:
    return FAMILIES[name][0]()


@pytest.fixture(params=CASES, ids="-".join)
def case(request: pytest.FixtureRequest) -> tuple[nn.Module, str]:
    name, place = request.param
    _, penultimate, hidden = FAMILIES[name]
    return family(name), penultimate if place == "penultimate" else hidden


@pytest.fixture
def photos() -> Data:
    images = torch.rand(6, 3, 32, 32, generator=torch.Generator().manual_seed(5))
    return Data(images, torch.arange(6) % 3, ["cat", "dog", "bird"])


def by_hand(
    net: nn.Module, layer: str, images: Tensor, scale: Tensor | None = None
) -> list[Tensor]:
    """The layer's output as the model has it, and the logits, with every neuron scaled.

    Written without the package: channels are axis 1 of NCHW maps, and the last axis of all else.
    """
    seen: list[Tensor] = []

    def hook(_: nn.Module, __: object, output: Tensor) -> Tensor:
        seen.append(output.clone())
        if scale is None:
            return output
        first = output.ndim == 4 and not layer.endswith("@nhwc")
        rows = scale.view(len(scale), *(1,) * (output.ndim - 2), -1)
        return output * (rows.movedim(-1, 1) if first else rows)

    handle = net.get_submodule(layer.removesuffix("@nhwc")).register_forward_hook(hook)
    with handle, torch.no_grad():
        logits = net(images)
    return [seen[0], logits]


def averaged(output: Tensor, layer: str) -> Tensor:
    if output.ndim == 2:
        return output
    if output.ndim == 4 and not layer.endswith("@nhwc"):
        return output.mean((2, 3))
    return output.flatten(1, -2).mean(1)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_recommended_layer_feeds_the_classifier(name: str, photos: Data) -> None:
    net, (_, expected, _) = family(name), FAMILIES[name]
    assert recommended_layer(net, photos.images[:2]) == expected
    head = [module for module in net.modules() if isinstance(module, nn.Linear)][-1]
    assert torch.equal(
        head(by_hand(net, expected, photos.images[:])[0]),
        by_hand(net, expected, photos.images[:])[1],
    )


def test_lo_ir_is_masking_each_neuron_and_running_again(
    case: tuple[nn.Module, str], photos: Data
) -> None:
    net, layer = case
    images, labels = photos.images[:], photos.labels
    output, full = by_hand(net, layer, images)
    neurons = averaged(output, layer).shape[1]
    own = torch.arange(len(labels)), labels
    some = torch.arange(0, neurons, 1 + neurons // 64)
    fallen = torch.zeros(len(labels), len(some))
    for column, neuron in enumerate(some):
        mask = torch.ones(len(labels), neurons)
        mask[:, neuron] = 0
        fallen[:, column] = (full - by_hand(net, layer, images, mask)[1])[own]
    expected = torch.stack([fallen[labels == c].mean(0) for c in range(3)])
    assert expected.abs().max() > 1e-3  # a layer that says nothing would agree with anything
    found = leave_one_out(net, photos, layer, progress=False).scores
    assert found.shape == (3, neurons)
    assert_close(found[:, some], expected, rtol=1e-3, atol=1e-6)


class Pictures:
    """An encoder of three texts: images by the means of their channels."""

    identity = "channel means"

    def images(self, images: Images) -> Tensor:
        return F.normalize(images.mean((2, 3)) - 0.49, dim=1)

    def texts(self, texts: Sequence[str]) -> Tensor:
        assert list(texts) == ["cat", "dog", "bird"]
        return torch.eye(3)


def test_cd_ir_is_soft_wpmi_of_the_neurons_mean_activations(
    case: tuple[nn.Module, str], photos: Data, tmp_path: Path
) -> None:
    net, layer = case
    found = clip_dissect(
        net, photos, layer, encoder=Pictures(), top_k=3, cache=Cache(tmp_path), progress=False
    )
    output, _ = by_hand(net, layer, photos.images[:])
    cosines = Pictures().images(photos.images[:])
    assert_close(found.scores, soft_wpmi(cosines, averaged(output, layer), top_k=3))


def test_a_defended_model_scales_the_guessed_classes_neurons(
    case: tuple[nn.Module, str], photos: Data
) -> None:
    net, layer = case
    ranking = leave_one_out(net, photos, layer, progress=False)
    defense = defend(net, ranking, keep=3, sigma=0, temperature=0.01)
    logits = by_hand(net, layer, photos.images[:])[1]
    mask = (logits / 0.01).softmax(1) @ ranking.masks(3)
    expected = by_hand(net, layer, photos.images[:], mask)[1]
    assert (expected - logits).abs().max() > 1e-3
    with torch.no_grad():
        assert_close(defense(photos.images[:]), expected, rtol=1e-3, atol=1e-6)


def test_a_channels_last_layer_is_listed_under_its_own_name(
    photos: Data, caplog: pytest.LogCaptureFixture
) -> None:
    net = family("swin")
    found = {layer.name: layer for layer in layers(net, photos.images[:1])}
    assert found["model.layers.1@nhwc"].shape == (4, 4, 16)
    assert found["model.layers.1@nhwc"].neurons == 16
    with caplog.at_level("WARNING"):
        leave_one_out(net, photos, "model.layers.1", progress=False)
    assert "name it 'model.layers.1@nhwc'" in caplog.text


def test_channels_last_is_for_maps_only(photos: Data) -> None:
    with pytest.raises(LayerError, match="@nhwc is for 4-D outputs, but this one has 3 axes"):
        leave_one_out(family("vit"), photos, "model.blocks.0@nhwc", progress=False)


def test_windows_are_no_images(photos: Data) -> None:
    net, layer = family("swin"), "model.layers.0.blocks.0.attn.proj"
    assert layer not in {found.name for found in layers(net, photos.images[:1])}
    with pytest.raises(LayerError, match="returns 8 rows for 2 images"):
        leave_one_out(net, photos, layer, progress=False)
