"""A model of another package as one of ours: [0, 1] pixels in, logits out."""

import pickle
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from igdefense.models.adapters.foreign import import_foreign
from igdefense.models.normalize import Normalize


class Adapted(nn.Sequential):
    """The normalisation its package would do outside, then the model; its layers: `model.*`.

    Worker processes receive it with the package imported by our own means, as its usual import may
    fail there.
    """

    def __init__(
        self,
        model: nn.Module,
        package: str,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        *,
        head: nn.Module | None = None,
        layer: str | None = None,
        size: int | None = None,
    ) -> None:
        parts = OrderedDict[str, nn.Module]()
        if mean is not None and std is not None:
            parts["normalize"] = Normalize(mean, std)
        parts["model"] = model
        if head is not None:
            parts["head"] = head
        super().__init__(parts)
        self.package, self.usual_layer, self.usual_size = package, layer, size
        self.eval()

    def __getstate__(self) -> dict[str, Any]:
        return {"package": self.package, "content": pickle.dumps(self.__dict__)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        import_foreign(state["package"])
        self.__dict__.update(pickle.loads(state["content"]))  # our own bytes, from above


@contextmanager
def drawn(seed: int = 0) -> Iterator[None]:
    """Initial weights of the block depend on the seed, and the global generator on nothing here."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
