"""The images that excite each neuron most, for all neurons at once."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

BLOCK = 25  # images
SLAB = 2**17  # activations


def top_images(activations: Float[Tensor, "images neurons"], k: int) -> Int[Tensor, "neurons _k"]:
    """Each neuron's `k` most exciting images, the first first; ties go to the lower number.

    The k-th largest of the maxima of blocks of images bounds the k-th largest activation from
    below, so few images are left to sort. On the CPU, where numpy selects faster than torch.
    """
    values: NDArray[Any] = activations.cpu().numpy()
    neurons = values.shape[1]
    places, chosen = _above(values, _lower_bound(values, k))
    image, neuron = places // neurons, places % neurons
    order = _by_neuron_then_value(neuron, chosen)
    counts = torch.bincount(neuron, minlength=neurons)
    starts = counts.cumsum(0) - counts
    return image[order[starts[:, None] + torch.arange(k)]].to(activations.device)


def _above(values: NDArray[Any], bound: NDArray[Any]) -> tuple[Tensor, Tensor]:
    """Where the values reach their neuron's bound, and those values; some images at a time."""
    step = max(1, SLAB // len(bound))
    mask = np.empty((step, len(bound)), dtype=bool)  # used again and again: new memory is slow
    bounds = np.tile(bound, (step, 1))  # numpy compares whole arrays twice as fast as rows
    places, chosen = [], []
    for start in range(0, len(values), step):
        some = values[start : start + step]
        reached = np.greater_equal(some, bounds[: len(some)], out=mask[: len(some)])
        here = np.flatnonzero(reached)
        places.append(here + start * len(bound))
        chosen.append(some.reshape(-1)[here])
    return torch.from_numpy(np.concatenate(places)), torch.from_numpy(np.concatenate(chosen))


def _lower_bound(values: NDArray[Any], k: int) -> NDArray[Any]:
    blocks = len(values) // BLOCK
    if blocks < k:
        return np.asarray(values.min(axis=0))
    maxima = values[: blocks * BLOCK].reshape(blocks, BLOCK, -1).max(axis=1)
    return np.partition(np.ascontiguousarray(maxima.T), blocks - k, axis=1)[:, blocks - k]


def _by_neuron_then_value(neuron: Tensor, value: Tensor) -> Tensor:
    """The order of neurons, and within each that of falling values; stable."""
    if value.dtype == torch.float32:  # one sort of integers: neuron, then the value's bits
        bits = (value + 0.0).view(torch.int32)  # -0 is 0
        rising = bits ^ ((bits >> 31) & 0x7FFFFFFF)
        return ((neuron << 33) - rising.long()).sort(stable=True).indices
    order = value.sort(descending=True, stable=True).indices
    return order[neuron[order].sort(stable=True).indices]
