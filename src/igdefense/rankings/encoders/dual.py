"""A small image-text dual encoder: a convolutional net, and a bag of letters for any text."""

import zlib
from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from igdefense.models.normalize import CIFAR10_MEAN, CIFAR10_STD, Normalize
from igdefense.types import Images

Embeddings = Float[Tensor, "items features"]  # of length 1
WIDTHS = (24, 48, 96, 192)
BUCKETS = 2048


class DualEncoder(nn.Module):
    """Images and texts to unit vectors of `features` numbers; forward gives the images'."""

    size = 32  # height and width of its images

    def __init__(self, features: int = 64, widths: Sequence[int] = WIDTHS) -> None:
        super().__init__()
        self.widths = tuple(widths)
        self.normalize = Normalize(CIFAR10_MEAN, CIFAR10_STD)
        stages: list[nn.Module] = [_convolution(3, widths[0])]
        for before, width in pairwise(widths):
            stages += [nn.MaxPool2d(2), _convolution(before, width), _Residual(width)]
        self.stages = nn.Sequential(*stages)
        self.project = nn.Linear(widths[-1], features)
        self.letters = nn.EmbeddingBag(BUCKETS, 2 * features, mode="sum")
        nn.init.normal_(self.letters.weight, std=0.05)  # what was never read says little
        self.read = nn.Sequential(nn.LayerNorm(2 * features), nn.Linear(2 * features, features))

    def forward(self, images: Images) -> Embeddings:
        maps = self.stages(self.normalize(images))
        return F.normalize(self.project(maps.mean((2, 3))), dim=1)

    def texts(self, texts: Sequence[str]) -> Embeddings:
        """A text is the sum of what its letters in threes stand for."""
        pieces = [pieces_of(text) for text in texts]
        device = self.project.weight.device
        starts = torch.tensor([0, *map(len, pieces)]).cumsum(0)[:-1]
        numbers = torch.tensor([number for some in pieces for number in some])
        bags = self.letters(numbers.to(device), starts.to(device))
        return F.normalize(self.read(bags), dim=1)


def pieces_of(text: str) -> list[int]:
    """Numbers for every word of a text and for its letters in threes, borders included."""
    words = "".join(c if c.isalnum() else " " for c in text.lower()).split()
    marked = [f"<{word}>" for word in words] or ["<>"]
    threes = [word[i : i + 3] for word in marked for i in range(max(1, len(word) - 2))]
    return [zlib.crc32(piece.encode()) % BUCKETS for piece in marked + threes]


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = _convolution(width, width)

    def forward(self, maps: Tensor) -> Tensor:
        return maps + self.inner(maps)


def _convolution(before: int, after: int) -> nn.Sequential:
    convolution = nn.Conv2d(before, after, 3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(after), nn.ReLU())
