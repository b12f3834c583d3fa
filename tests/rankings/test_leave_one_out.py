from collections.abc import Callable
from typing import Literal

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from igdefense.data.data import Data
from igdefense.errors import DataError, ModelError
from igdefense.layers import edited, neuron_axis, neurons_of, reading
from igdefense.rankings.leave_one_out import leave_one_out
from nets import make_net


def zeroed(neuron: int) -> Callable[[Tensor], Tensor]:
    def edit(out: Tensor) -> Tensor:
        out = out.clone()
        out.select(neuron_axis(out), neuron).zero_()
        return out

    return edit


@torch.no_grad()
def by_definition(net: nn.Module, data: Data, layer: str, *, absolute: bool) -> Tensor:
    """Mask each neuron and run the whole network again."""
    with reading(net, layer) as outputs:
        full = net(data.images[:])
    columns = []
    for neuron in range(neurons_of(outputs[0])):
        with edited(net, layer, zeroed(neuron)):
            change = full - net(data.images[:])
        change = change.abs() if absolute else change
        columns.append(
            torch.stack([change[data.labels == c, c].mean() for c in range(full.shape[1])])
        )
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize("change", ["signed", "absolute"])
@pytest.mark.parametrize("batch_size", [4, 100])
def test_scores_equal_masking_each_neuron_and_running_again(
    net_and_layer: tuple[nn.Module, str],
    data: Data,
    change: Literal["signed", "absolute"],
    batch_size: int,
) -> None:
    net, layer = net_and_layer
    ranking = leave_one_out(net, data, layer, change=change, batch_size=batch_size)
    expected = by_definition(net, data, layer, absolute=change == "absolute")
    assert_close(ranking.scores, expected, rtol=1e-4, atol=1e-6)


def test_a_pooled_linear_head_needs_one_forward_pass(data: Data) -> None:
    net = make_net("resnet")
    seen = 0

    def count(_: nn.Module, inputs: tuple[Tensor, ...], __: Tensor) -> None:
        nonlocal seen
        seen += len(inputs[0])

    net.get_submodule("layer4").register_forward_hook(count)
    leave_one_out(net, data, "layer4", batch_size=3)
    overhead = 16  # looks at two images at a time: is it a classifier, can it be split?
    assert seen <= len(data) + overhead


def test_what_comes_before_a_hidden_layer_is_not_run_again(data: Data) -> None:
    net = make_net("resnet")
    seen = 0

    def count(_: nn.Module, inputs: tuple[Tensor, ...], __: Tensor) -> None:
        nonlocal seen
        seen += len(inputs[0])

    net.get_submodule("layer1").register_forward_hook(count)
    leave_one_out(net, data, "layer3", batch_size=3)
    overhead = 16
    assert seen <= len(data) + overhead


def test_a_class_without_probe_images_is_named(images: Tensor) -> None:
    data = Data(images, torch.arange(9) % 2, ["cat", "dog", "bird"])
    with pytest.raises(DataError, match="no image of class 'bird'"):
        leave_one_out(make_net("cnn"), data, "conv2")


def test_a_model_in_train_mode_is_refused(data: Data) -> None:
    with pytest.raises(ModelError, match=r"train mode.*\.eval\(\)"):
        leave_one_out(make_net("cnn").train(), data, "conv2")


def test_double_precision_models_are_ranked_too(data: Data) -> None:
    net = make_net("cnn").double()
    doubles = Data(data.images[:].double(), data.labels, data.class_names)
    expected = by_definition(net, doubles, "last", absolute=False)
    assert_close(leave_one_out(net, doubles, "last").scores, expected.float())
