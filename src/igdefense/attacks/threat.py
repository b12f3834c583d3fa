"""What an adversary may change: a norm and a budget, always inside [0, 1] pixels."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Generator, Tensor

from igdefense.errors import SettingError
from igdefense.randomness import Streams
from igdefense.types import Images


@runtime_checkable
class Threat(Protocol):
    """A ball around the clean image, cut with the pixel box."""

    @property
    def eps(self) -> float: ...

    def project(self, x: Images, clean: Images) -> Images:
        """The nearest allowed point, or one close to it."""
        ...

    def size(self, x: Images, clean: Images) -> Tensor:
        """The norm of each image's perturbation."""
        ...

    def contains(self, x: Images, clean: Images) -> Tensor:
        """Which images are allowed, up to rounding."""
        ...

    def random(self, clean: Images, rng: Generator | Streams) -> Images:
        """A random start inside the ball and the pixel box."""
        ...

    def ascend(self, x: Images, gradient: Tensor, step: float | Tensor) -> Images:
        """The steepest step of that length in this norm, not yet projected."""
        ...


def _in_pixel_box(x: Images) -> Tensor:
    return ((x >= 0) & (x <= 1)).flatten(1).all(1)


def _length(vectors: Tensor) -> Tensor:
    return torch.linalg.vector_norm(vectors.flatten(1), dim=1)


@dataclass(frozen=True)
class Linf:
    """No pixel changes by more than eps."""

    eps: float

    def __post_init__(self) -> None:
        if not 0 < self.eps <= 1:
            raise SettingError(
                f"eps = {self.eps:g} is outside (0, 1]; it is in pixel units, so write 8/255 for "
                "eight grey levels."
            )

    def project(self, x: Images, clean: Images) -> Images:
        return x.clamp(clean - self.eps, clean + self.eps).clamp(0, 1)

    def size(self, x: Images, clean: Images) -> Tensor:
        return (x - clean).flatten(1).abs().amax(1)

    def contains(self, x: Images, clean: Images) -> Tensor:
        return _in_pixel_box(x) & (self.size(x, clean) <= self.eps + 1e-6)

    def random(self, clean: Images, rng: Generator | Streams) -> Images:
        """A uniform point of the ball, cut to the pixel box."""
        noise = Streams.of(rng, len(clean)).uniform(clean.shape[1:], -self.eps, self.eps)
        return self.project(clean + noise.to(clean), clean)

    def ascend(self, x: Images, gradient: Tensor, step: float | Tensor) -> Images:
        return x + step * gradient.sign()


@dataclass(frozen=True)
class L2:
    """The Euclidean length of the change is at most eps."""

    eps: float

    def __post_init__(self) -> None:
        if not 0 < self.eps < float("inf"):
            raise SettingError(
                f"eps = {self.eps:g} is not a positive length; common L2 budgets are 0.5 (CIFAR) "
                "and 3 (ImageNet)."
            )

    def project(self, x: Images, clean: Images) -> Images:
        delta = x - clean
        shrink = (self.eps / _length(delta).clamp(min=1e-12)).clamp(max=1).view(-1, 1, 1, 1)
        return (clean + shrink * delta).clamp(0, 1)

    def size(self, x: Images, clean: Images) -> Tensor:
        return _length(x - clean)

    def contains(self, x: Images, clean: Images) -> Tensor:
        return _in_pixel_box(x) & (self.size(x, clean) <= self.eps * (1 + 1e-5) + 1e-6)

    def random(self, clean: Images, rng: Generator | Streams) -> Images:
        """A random direction, eps far, cut to the pixel box."""
        noise = Streams.of(rng, len(clean)).normal(clean.shape[1:]).to(clean)
        return self.project(self.ascend(clean, noise, self.eps), clean)

    def ascend(self, x: Images, gradient: Tensor, step: float | Tensor) -> Images:
        return x + step * gradient / (_length(gradient).view(-1, 1, 1, 1) + 1e-12)
