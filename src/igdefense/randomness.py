"""Generators named by what they are for, so that no result depends on order, batch or worker."""

import hashlib
from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

Key = int | str | tuple[int | str, ...]


def seed_of(*path: Key) -> int:
    """A 63-bit seed that depends on the path alone: (seed, image, attack, draw), say."""
    text = "/".join(repr(part) for part in path)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(*path: Key) -> Generator:
    """A CPU generator for that path; draw on the CPU, then move, and every device agrees."""
    return Generator().manual_seed(seed_of(*path))


class Streams:
    """One random stream for each image of a batch.

    Stateless: a stream always gives the same numbers, and `child` names a new one. What an image
    is dealt therefore depends on its own seed and the name, never on its neighbours.
    """

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = tuple(seeds)

    @classmethod
    def of(cls, rng: "Generator | Streams", count: int) -> "Streams":
        """Streams as they are, or `count` of them seeded from a plain generator."""
        if isinstance(rng, Streams):
            if len(rng) != count:
                raise ValueError(f"There are {len(rng)} random streams for {count} images.")
            return rng
        return cls(torch.randint(2**62, (count,), generator=rng, device=rng.device).tolist())

    def __len__(self) -> int:
        return len(self.seeds)

    def __getitem__(self, index: Tensor) -> "Streams":
        """The streams of some of the images, by position or boolean mask."""
        chosen = index.nonzero().flatten() if index.dtype == torch.bool else index
        return Streams([self.seeds[i] for i in chosen.tolist()])

    def child(self, *name: Key) -> "Streams":
        """Independent streams for one purpose: `rng.child("start", restart)`."""
        return Streams([seed_of(seed, *name) for seed in self.seeds])

    def uniform(self, shape: Sequence[int], low: float = 0.0, high: float = 1.0) -> Tensor:
        """(images, *shape) on the CPU; move it to where the images are."""
        return self._fill(shape, lambda row, rng: row.uniform_(low, high, generator=rng))

    def normal(self, shape: Sequence[int], std: float = 1.0) -> Tensor:
        """(images, *shape) on the CPU; move it to where the images are."""
        return self._fill(shape, lambda row, rng: row.normal_(0, std, generator=rng))

    def _fill(self, shape: Sequence[int], fill: Callable[[Tensor, Generator], Tensor]) -> Tensor:
        numbers = torch.empty(len(self), *shape)
        rng = Generator()
        for row, seed in zip(numbers, self.seeds, strict=True):
            fill(row, rng.manual_seed(seed))
        return numbers
