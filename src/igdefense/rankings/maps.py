"""Where in an image a neuron is active: activation maps of any layer, batch by batch."""

import math
from collections.abc import Iterator

from jaxtyping import Float
from torch import Tensor

from igdefense.data.data import Data
from igdefense.progress import track
from igdefense.split import Split, activations_of
from igdefense.types import Activations

Maps = Float[Tensor, "batch neurons rows columns"]


def stream(
    parts: Split, data: Data, batch_size: int, what: str, progress: bool | None = None
) -> Iterator[tuple[int, Activations]]:
    """The position of each batch's first image, and the layer's output on the batch."""
    tensors = [*parts.model.parameters(), *parts.model.buffers()]
    starts = range(0, len(data), batch_size)
    batches = zip(starts, data.batches(batch_size), strict=True)
    for start, (images, _) in track(batches, what, progress, total=len(starts)):
        moved = images.to(tensors[0].device) if tensors else images
        yield start, activations_of(parts.before(moved))


def maps_of(activations: Activations) -> Maps:
    """One map for each neuron.

    A 2-D output is a map of one pixel. Tokens that form a square, with or without a class token
    before them, are laid out in it; any other number of tokens is averaged to one pixel.
    """
    if activations.ndim == 4:
        return activations
    if activations.ndim == 2:
        return activations[:, :, None, None]
    tokens = activations.transpose(1, 2)
    for extra in (0, 1):  # without and with a class token
        count = tokens.shape[2] - extra
        side = math.isqrt(count)
        if count and side * side == count:
            return tokens[:, :, extra:].unflatten(2, (side, side))
    return tokens.mean(2)[:, :, None, None]


def averages(activations: Activations) -> Float[Tensor, "batch neurons"]:
    """Each neuron's activation on each image, averaged over the map or the tokens."""
    if activations.ndim == 3:
        return activations.mean(1)
    return activations if activations.ndim == 2 else activations.mean((2, 3))
