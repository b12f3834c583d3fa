"""A pass over the probe set, batch by batch, on any backend."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import nn

from igdefense.data.data import Data
from igdefense.progress import track
from igdefense.running.local import Local
from igdefense.running.pool import Backend, Job, in_order
from igdefense.types import Images, Labels

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Probing:
    """What every batch of a pass needs; it travels to the workers once."""

    model: Any  # a network, or an encoder
    data: Data
    batch_size: int
    about: Any = None  # what else the pass depends on
    _made: dict[str, Any] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": {}}  # made again in each process

    @property
    def parts(self) -> tuple[object, ...]:
        """What other passes over the same images have, too."""
        return self.model, self.data

    @property
    def device(self) -> torch.device:
        net = self._net
        tensors = [*net.parameters(), *net.buffers()] if net is not None else []
        return tensors[0].device if tensors else torch.device("cpu")

    @property
    def _net(self) -> nn.Module | None:
        net = (
            self.model if isinstance(self.model, nn.Module) else getattr(self.model, "model", None)
        )
        return net if isinstance(net, nn.Module) else None

    def to(self, device: str) -> None:
        """Move the network, also that of an encoder."""
        if self._net is not None:
            self._net.to(device)

    def batch(self, start: int) -> tuple[Images, Labels]:
        """The images from `start` on, and their labels, where the model is."""
        some = slice(start, start + self.batch_size)
        (pair,) = self.data[some].batches(self.batch_size)
        return pair[0].to(self.device), pair[1].to(self.device)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What `make` makes, made the first time in each process."""
        if name not in self._made:
            self._made[name] = make()
        made: T = self._made[name]
        return made

    def each(
        self,
        function: Callable[["Probing", int], T],
        what: str,
        backend: Backend | None,
        progress: bool | None,
    ) -> Iterator[T]:
        """`function(self, start)` for the batch at each start, in order."""
        starts = range(0, len(self.data), self.batch_size)
        results = in_order(backend or Local(), Job(function, self), starts)
        return track(results, what, progress, total=len(starts))
