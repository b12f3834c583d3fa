"""The layer to rank where none is named: the last one before the classifier."""

from collections import Counter
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from igdefense.layers import Call, calls, layers
from igdefense.models.architectures import default_layer
from igdefense.types import Images


def recommended_layer(model: nn.Module, images: Images) -> str | None:
    """The penultimate layer: the known one, else what a forward pass on two images shows.

    The classifier is the linear layer or convolution whose output are the logits, or the last one.
    The layer is what gives its input; where something happens between them (pooling, an
    activation that is a function), the last layer before it with as many neurons.
    """
    known = default_layer(model)
    if known is not None:
        return known
    made, logits = calls(model, images[:2])
    head = _head(made, logits)
    if head is None:
        return None
    before = made[: made.index(head)]
    once = Counter(call.name for call in made)
    usable = {layer.name.partition("@")[0]: layer for layer in layers(model, images[:1])}
    found = [call for call in before if once[call.name] == 1 and call.name in usable]
    same = [call for call in found if _equal(call.output, head.input)]
    if same:  # the outermost of those, and of these the first
        return usable[min(same, key=lambda call: call.name.count(".")).name].name
    wide = _width(head.module)
    alike = [call for call in found if wide in _widths(call.output, usable[call.name].neurons)]
    return usable[alike[-1].name].name if alike else None


def _head(made: list[Call], logits: Tensor) -> Call | None:
    weighted = [call for call in made if isinstance(call.module, nn.Linear | nn.Conv2d)]
    ends = [call for call in weighted if _equal(call.output, logits)]
    return (ends or weighted or [None])[-1]  # type: ignore[list-item]


def _equal(one: object, other: object) -> bool:
    return isinstance(one, Tensor) and isinstance(other, Tensor) and torch.equal(one, other)


def _width(head: nn.Module) -> int:
    width = head.in_features if isinstance(head, nn.Linear) else head.in_channels
    assert isinstance(width, int)
    return width


def _widths(output: Tensor, neurons: int) -> Iterator[int]:
    """How wide a classifier may be that reads this output: pooled, or flattened."""
    yield neurons
    yield output[0].numel()
