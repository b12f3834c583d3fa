import logging

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from igdefense.errors import LayerError, LayerNotFoundError
from igdefense.layers import edited, layers, reading, scale_neurons
from igdefense.split import activations_of, split
from nets import make_net


def hooks(net: nn.Module) -> int:
    return sum(len(module._forward_hooks) for module in net.modules())


def test_after_of_before_is_the_model(net_and_layer: tuple[nn.Module, str], images: Tensor) -> None:
    net, layer = net_and_layer
    parts = split(net, layer)
    assert_close(parts.after(parts.before(images)), net(images))
    assert hooks(net) == 0


def test_before_gives_what_the_layer_returned(
    net_and_layer: tuple[nn.Module, str], images: Tensor
) -> None:
    net, layer = net_and_layer
    outputs = []
    module = net.get_submodule(layer)
    handle = module.register_forward_hook(lambda _, __, out: outputs.append(out.clone()))
    net(images)
    handle.remove()
    assert_close(activations_of(split(net, layer).before(images)), outputs[0])


def test_after_leaves_its_input_alone_though_the_model_works_in_place(images: Tensor) -> None:
    parts = split(make_net("mlp"), "hidden")
    state = parts.before(images)
    once, twice = parts.after(state), parts.after(state)
    assert_close(once, twice, rtol=0, atol=0)
    assert isinstance(state, Tensor)
    assert (state < 0).any()  # the in-place ReLU behind the layer has not touched it


def test_a_layer_whose_output_is_all_that_follows_is_separate(images: Tensor) -> None:
    assert split(make_net("resnet"), "layer3").separate
    assert not split(make_net("resnet"), "layer3.0.conv1").separate


def test_a_batch_can_be_continued_in_part_where_the_split_is_separate(images: Tensor) -> None:
    net = make_net("vit")
    parts = split(net, "blocks.0")
    state = parts.before(images)
    assert isinstance(state, Tensor)
    assert_close(parts.after(state[2:5]), net(images[2:5]))


def test_a_model_that_cannot_be_traced_falls_back_to_hooks_and_says_so(
    images: Tensor, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        parts = split(make_net("untraceable"), "conv2")
    assert not parts.traced
    assert "using hooks" in caplog.text


class Moody(nn.Module):
    """Python decides once, so that a trace would be wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.layer = nn.Flatten()
        self.fc = nn.Linear(3 * 8 * 8, 2)

    def forward(self, images: Tensor) -> Tensor:
        self.calls += 1
        return self.fc(self.layer(images)) * (0.0 if self.calls == 1 else 1.0)


def test_a_trace_that_behaves_differently_is_noticed(images: Tensor) -> None:
    net = Moody().eval()
    parts = split(net, "layer")
    assert parts.traced
    assert_close(parts.after(parts.before(images)), net(images))
    assert not parts.traced


def test_gradients_flow_through_both_parts(images: Tensor) -> None:
    net = make_net("cnn")
    parts = split(net, "conv2")
    x, y = images.clone().requires_grad_(), images.clone().requires_grad_()
    parts.after(parts.before(x)).sum().backward()
    net(y).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert_close(x.grad, y.grad)


def test_parameters_changed_after_the_split_are_seen(images: Tensor) -> None:
    net = make_net("vit")
    parts = split(net, "blocks.0")
    parts.before(images)
    net.double()
    x = images.double()
    assert_close(parts.after(parts.before(x)), net(x))


def test_layers_lists_name_shape_and_neurons(images: Tensor) -> None:
    found = {layer.name: (layer.shape, layer.neurons) for layer in layers(make_net("vit"), images)}
    assert found["patches"] == ((8, 2, 2), 8)
    assert found["blocks.0"] == ((5, 8), 8)
    assert found["head"] == ((3,), 3)
    assert hooks(make_net("vit")) == 0


def test_scaling_reaches_the_neuron_axis_of_every_layout() -> None:
    mask = torch.tensor([[1.0, 0.0, 2.0]])
    assert_close(scale_neurons(torch.ones(1, 3), mask), mask)
    assert_close(scale_neurons(torch.ones(1, 4, 3), mask)[0, 2], mask[0])
    assert_close(scale_neurons(torch.ones(1, 3, 2, 2), mask)[0, :, 1, 1], mask[0])


def test_hooks_are_gone_after_an_exception(images: Tensor) -> None:
    net = make_net("cnn")

    def fail(_: Tensor) -> Tensor:
        raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"), edited(net, "conv2", fail):
        net(images)
    with pytest.raises(RuntimeError), reading(net, "conv2"):
        net(images[:, :1])  # the wrong number of channels
    assert hooks(net) == 0


def test_an_unknown_layer_is_refused_with_near_names() -> None:
    with pytest.raises(LayerNotFoundError, match=r"no layer 'layer5'.*Did you mean.*layer4"):
        split(make_net("resnet"), "layer5")


class Faulty(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 4, batch_first=True)
        self.twice = nn.ReLU()
        self.idle = nn.Linear(1, 1)
        self.fc = nn.Linear(4, 3)

    def forward(self, images: Tensor) -> Tensor:
        out, _ = self.lstm(self.twice(images[:, 0]))
        return self.fc(self.twice(out[:, -1]))


@pytest.mark.parametrize(
    ("layer", "complaint"),
    [
        ("lstm", "returns a tuple"),
        ("twice", "called more than once"),
        ("idle", "is not called"),
    ],
)
def test_a_layer_without_one_tensor_of_neurons_is_refused(
    layer: str, complaint: str, images: Tensor
) -> None:
    with pytest.raises(LayerError, match=complaint):
        split(Faulty().eval(), layer).before(images)
