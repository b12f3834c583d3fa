"""Names of architectures."""

import pytest
import torch
from torch import nn

from igdefense.errors import ModelError
from igdefense.models import (
    ImageNetResNet,
    Normalized,
    PreActResNet,
    ResNet,
    WideResNet,
    build,
    default_layer,
)

MADE = {  # family, channels of the first block, weights
    "resnet18": (ResNet, 64, 11_173_962),
    "resnet34": (ResNet, 64, 21_282_122),
    "resnet18-w16": (ResNet, 16, 701_466),
    "preact-resnet18": (PreActResNet, 64, 11_172_170),
    "preact-resnet18-w16": (PreActResNet, 16, 701_018),
    "wrn-34-10": (WideResNet, 160, 46_160_474),
    "wrn-16-2": (WideResNet, 32, 691_674),
    "resnet50": (ImageNetResNet, 64, 25_557_032),
    "resnet101": (ImageNetResNet, 64, 44_549_160),
    "resnet152": (ImageNetResNet, 64, 60_192_808),
}


@pytest.mark.parametrize("arch", MADE)
def test_a_name_makes_the_family_width_and_number_of_weights_of_its_paper(arch: str) -> None:
    family, width, weights = MADE[arch]
    with torch.device("meta"):
        model = build(arch)
    first = next(m for n, m in model.named_modules() if n.endswith("0.conv1"))
    assert isinstance(first, nn.Conv2d)
    made = type(model), first.out_channels, sum(p.numel() for p in model.parameters())
    assert made == (family, width, weights)


def test_classes_mean_and_std_reach_the_model() -> None:
    model = build("resnet18-w2", 7, mean=(0, 0, 0), std=(1, 2, 4))
    state = model.state_dict()
    assert len(state["linear.bias"]) == 7
    assert state["normalize.mean"].flatten().tolist() == [0.0, 0.0, 0.0]
    assert state["normalize.std"].flatten().tolist() == [1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("arch", "layer"),
    [
        ("resnet18-w2", "layer4"),
        ("preact-resnet18-w2", "relu"),
        ("wrn-10-1", "relu"),
        ("resnet50-w2", "layer4"),
    ],
)
def test_the_default_layer_feeds_the_last_linear_one(arch: str, layer: str) -> None:
    model = build(arch).eval()
    seen: dict[str, int] = {}
    assert default_layer(model) == layer
    handle = model.get_submodule(layer).register_forward_hook(
        lambda _, __, out: seen.update(neurons=out.shape[1])
    )
    model(torch.rand(1, 3, 32, 32))
    handle.remove()
    (head,) = (m for m in model.modules() if isinstance(m, nn.Linear))
    assert seen["neurons"] == head.in_features


def test_the_default_layer_is_found_under_a_normalisation() -> None:
    wrapped = Normalized(build("wrn-10-1"), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    assert default_layer(wrapped) == "model.relu"


def test_other_models_have_no_default_layer() -> None:
    assert default_layer(nn.Linear(2, 2)) is None


@pytest.mark.parametrize(
    ("arch", "says"),
    [
        ("resnet19", "Did you mean resnet18"),
        ("ResNet18", "Did you mean resnet18"),
        ("preact-resnet50", "preact-resnet{18,34}"),
        ("resnet18-w0", "-wWIDTH"),
        ("wrn-35-10", "Did you mean wrn-34-10"),
        ("wrn-4-1", "Did you mean wrn-10-1"),
        ("", "wrn-DEPTH-WIDEN"),
    ],
)
def test_an_unknown_name_offers_the_nearest(arch: str, says: str) -> None:
    with pytest.raises(ModelError) as error:
        build(arch)
    assert says in str(error.value)


def test_mean_without_std_is_refused() -> None:
    with pytest.raises(ModelError, match="give both"):
        build("resnet18-w2", mean=(0.5, 0.5, 0.5))


def test_a_std_of_zero_is_refused() -> None:
    with pytest.raises(ModelError, match="std above 0"):
        build("resnet18-w2", mean=(0.5, 0.5, 0.5), std=(1, 0, 1))
