"""How many forward and backward passes of its base model a defense makes, counted by hooks."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from igdefense.types import Images


@dataclass(frozen=True)
class Passes:
    """Passes of the base model over the batch; parts of it count by their share of its work."""

    forward: float
    backward: float


@dataclass(eq=False)
class _Tally:
    """Multiply-adds of the base model's layers, as they are called and as gradients reach them."""

    forward: float = 0.0
    backward: float = 0.0

    def count(self, module: nn.Module, _: object, output: object) -> None:
        if not isinstance(output, Tensor):
            return
        work = _work(module, output)
        self.forward += work
        if output.requires_grad:
            output.register_hook(lambda _: self._back(work))

    def _back(self, work: float) -> None:
        self.backward += work


def count_passes(defense: nn.Module, base: nn.Module, images: Images) -> Passes:
    """Of one call of the defense without gradients, in passes of `base` over the same images.

    `base` must be the very module inside the defense. Its layers are watched one by one, because
    a defense may run only a part of it, or several copies of the batch at once.
    """
    watched = _layers(base)
    with torch.no_grad():
        defense(images)  # what a first call prepares is not part of the next
        with _counted(watched) as one:
            base(images)
        if one.forward == 0:  # its layers are never called as such
            watched = [base]
            with _counted(watched) as one:
                base(images)
        with _counted(watched) as all_of_it:
            defense(images)
    return Passes(all_of_it.forward / one.forward, all_of_it.backward / one.forward)


def _layers(base: nn.Module) -> list[nn.Module]:
    """Convolutions and linear layers, where nearly all the work is."""
    leaves = [module for module in base.modules() if not list(module.children())]
    return [module for module in leaves if _row(module) > 0]


@contextmanager
def _counted(watched: list[nn.Module]) -> Iterator[_Tally]:
    tally = _Tally()
    handles = [module.register_forward_hook(tally.count) for module in watched]
    try:
        yield tally
    finally:
        for handle in handles:
            handle.remove()


def _work(module: nn.Module, output: Tensor) -> float:
    """Multiply-adds: each output number of a layer takes one row of its weights."""
    return float(output.numel() * max(1, _row(module)))


def _row(module: nn.Module) -> int:
    weight = getattr(module, "weight", None)
    return weight[0].numel() if isinstance(weight, Tensor) and weight.ndim > 1 else 0
