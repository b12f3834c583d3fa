"""Nets with known answers, for tests and examples."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from igdefense.randomness import Streams, generator
from igdefense.types import Images, Labels, Logits


class LinearNet(nn.Module):
    """Logits W (x - 1/2), drawn from a seed: every distance to a decision boundary is known.

    All logits of a grey image are 0, so 1/2 + t (x - 1/2) is t times as far from its boundary as x.
    """

    weight: Tensor

    def __init__(self, shape: Sequence[int] = (3, 8, 8), classes: int = 5, seed: int = 0) -> None:
        super().__init__()
        rng = generator("toy", "linear", seed)
        self.weight = nn.Parameter(torch.randn(classes, math.prod(shape), generator=rng))

    def forward(self, images: Images) -> Logits:
        return (images - 0.5).flatten(1) @ self.weight.T

    def linf_radius(self, images: Images, labels: Labels) -> Tensor:
        """The smallest L-inf change of class, if no pixel reaches 0 or 1 on the way."""
        return self._radius(images, labels, 1)

    def l2_radius(self, images: Images, labels: Labels) -> Tensor:
        """The smallest L2 change of class, if no pixel reaches 0 or 1 on the way."""
        return self._radius(images, labels, 2)

    @torch.no_grad()
    def _radius(self, images: Images, labels: Labels, dual: int) -> Tensor:
        logits, true = self(images), labels.unsqueeze(1)
        apart = self.weight[labels].unsqueeze(1) - self.weight
        steepness = torch.linalg.vector_norm(apart, dual, dim=2)
        radii = (logits.gather(1, true) - logits) / steepness.scatter(1, true, 1.0)
        return radii.scatter(1, true, float("inf")).amin(1)


class ConvNet(nn.Sequential):
    """Two convolutions and a linear layer, with weights drawn from a seed."""

    def __init__(self, channels: int = 3, classes: int = 5, width: int = 8, seed: int = 0) -> None:
        super().__init__(
            nn.Conv2d(channels, width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(8 * width, classes),
        )
        rng = generator("toy", "conv", seed)
        with torch.no_grad():
            for parameter in self.parameters():
                fan_in = parameter[0].numel() if parameter.ndim > 1 else 100
                parameter.normal_(0, math.sqrt(2 / fan_in), generator=rng)


class Noisy(nn.Module):
    """A model behind Gaussian pixel noise, which image i draws from keys[i]."""

    def __init__(self, model: nn.Module, sigma: float) -> None:
        super().__init__()
        self.model, self.sigma = model, sigma

    def forward(self, images: Images, keys: Sequence[int] | None = None) -> Logits:
        """Without keys, the noise comes from the global generator."""
        if keys is None:
            keys = torch.randint(2**62, (len(images),)).tolist()
        return self.model(images + self.noise(images, keys))

    def noise(self, images: Images, keys: Sequence[int]) -> Tensor:
        """What the images are shifted by."""
        return Streams(keys).normal(images.shape[1:], self.sigma).to(images)
