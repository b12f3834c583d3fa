"""Normalisation as part of the model, so that every model takes [0, 1] pixels."""

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

CIFAR10_MEAN = (0.4914, 0.4822, 0.4465)
CIFAR10_STD = (0.2471, 0.2435, 0.2616)
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class Normalize(nn.Module):
    """(pixels - mean) / std, channel by channel."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1))
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std


class Normalized(nn.Sequential):
    """A model that expects normalised input, made to take [0, 1] pixels; its layers: `model.*`."""

    def __init__(self, model: nn.Module, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__(OrderedDict(normalize=Normalize(mean, std), model=model))
