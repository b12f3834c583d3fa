"""The obvious alternatives: a plain pass over the images, and one more for each neuron."""

from functools import partial

import torch
from torch import Tensor, nn

from igdefense import Data, load_data
from igdefense.data.subset import balanced
from igdefense.layers import edited, neuron_axis

BATCH = 100  # what leave_one_out uses too


@torch.no_grad()
def plain_pass(model: nn.Module, data: Data) -> None:
    """The model, over all images."""
    for images, _ in data.batches(BATCH):
        model(images)


@torch.no_grad()
def rerun(model: nn.Module, data: Data, layer: str, neurons: list[int]) -> None:
    """For each of those neurons, the whole model again with the neuron at zero."""
    for neuron in neurons:
        for images, _ in data.batches(BATCH):
            with edited(model, layer, partial(_without, neuron=neuron)):
                model(images)


def _without(output: Tensor, neuron: int) -> Tensor:
    output = output.clone()
    output.select(neuron_axis(output), neuron).zero_()
    return output


def spread_over(neurons: int, count: int) -> list[int]:
    """`count` positions, evenly over the layer."""
    return torch.linspace(0, neurons - 1, min(count, neurons)).long().tolist()


def probe(images: int) -> Data:
    """So many of the embedded probe images, class-balanced."""
    data = load_data("embedded:probe")
    return balanced(data, images // len(data.class_names), seed=0)


def unseen(data: Data) -> Data:
    """The same images as a new Data, whose fingerprint has not been taken yet."""
    return Data(data.images, data.labels, data.class_names)
