"""The top quantile of a stream of numbers, in bounded memory."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from igdefense.randomness import generator
from igdefense.rankings.maps import Maps

CAPACITY = 4096  # numbers remembered for each neuron


class Tail:
    """Each neuron's threshold: a share `quantile` of its activations lies above it.

    Of `total` activations, k = quantile x total (rounded down, at least one) belong above the
    threshold, which is halfway between the k-th largest and the next. While k fits in `capacity`
    the k + 1 largest are remembered and the threshold is exact. Beyond that each place of each
    image is used with probability capacity / k, drawn from the image's position, and the share
    that really lies above has a relative standard error of about 1 / sqrt(capacity), 1.6 % by
    default: 0.5 % +- 0.008 %.
    """

    def __init__(self, quantile: float, total: int, capacity: int = CAPACITY) -> None:
        self.quantile, self.total = quantile, total
        self.share = min(1.0, capacity / _above(quantile, total))
        # A sample that came out larger than expected needs a little more room.
        room = capacity + math.ceil(6 * math.sqrt(capacity)) if self.share < 1 else capacity
        self.room = min(room, _above(quantile, total)) + 1
        self.seen = 0
        self.largest: Tensor | None = None

    def add(self, start: int, maps: Maps) -> None:
        """Take in the maps of the images at `start` and after it."""
        values = maps.flatten(2).transpose(0, 1)  # neurons, images, places
        if self.share < 1:
            used = torch.stack(
                [
                    torch.rand(values.shape[2], generator=generator("net-dissect", start + i))
                    for i in range(values.shape[1])
                ]
            )
            values = values[:, (used < self.share).to(values.device)]
        self.seen += values.flatten(1).shape[1]
        self._take(values.flatten(1))

    def after(self, earlier: "Tail | None") -> "Tail":
        """This tail and an earlier one of the same stream, taken together."""
        if earlier is not None and earlier.largest is not None:
            self.seen += earlier.seen
            self._take(earlier.largest)
        return self

    def _take(self, values: Tensor) -> None:
        if self.largest is not None:
            values = torch.cat([self.largest, values], dim=1)
        self.largest = values.topk(min(self.room, values.shape[1]), dim=1).values.cpu()

    @property
    def thresholds(self) -> Float[Tensor, " neurons"]:
        """Halfway, so that the rounding of an upsampled map does not lift a tie above it."""
        assert self.largest is not None, "no activations were added"
        k = min(_above(self.quantile, self.seen), self.largest.shape[1] - 1)
        return self.largest[:, [k - 1, k]].mean(1)


def _above(quantile: float, total: int) -> int:
    return max(1, math.floor(quantile * total + 1e-9))  # 0.29 x 100 is a little less than 29
