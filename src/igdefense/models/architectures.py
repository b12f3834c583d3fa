"""Architectures by name: `resnet18`, `preact-resnet18-w16`, `wrn-34-10`, `resnet50`."""

import difflib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from igdefense.errors import ModelError
from igdefense.models.normalize import (
    CIFAR10_MEAN,
    CIFAR10_STD,
    IMAGENET_MEAN,
    IMAGENET_STD,
    Normalized,
)
from igdefense.models.resnet import ImageNetResNet, PreActResNet, ResNet, WideResNet

Channels = Sequence[float | int]  # one number for each of red, green, blue

BASIC = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3)}
BOTTLENECK = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
GRAMMAR = (
    "resnet{18,34}, preact-resnet{18,34} (CIFAR), resnet{50,101,152} (ImageNet), each with "
    "-wWIDTH for another width than 64, or wrn-DEPTH-WIDEN"
)
NAMES = (
    *("resnet18", "resnet34", "resnet18-w16", "preact-resnet18", "preact-resnet34"),
    *("wrn-16-2", "wrn-28-10", "wrn-34-10", "wrn-34-20", "wrn-70-16"),
    *("resnet50", "resnet101", "resnet152"),
)
PENULTIMATE: dict[type[nn.Module], str] = {
    ResNet: "layer4",
    PreActResNet: "relu",
    WideResNet: "relu",
    ImageNetResNet: "layer4",
}
Family = type[ResNet] | type[PreActResNet] | type[WideResNet] | type[ImageNetResNet]


@dataclass(frozen=True)
class Architecture:
    """What a name stands for; `build` makes the model, with fresh weights."""

    family: Family
    shape: tuple[tuple[int, ...] | int, int]  # depths and width, or depth and widening

    @property
    def normalization(self) -> tuple[Channels, Channels]:
        """The mean and standard deviation of the data it is usually trained on."""
        if self.family is ImageNetResNet:
            return IMAGENET_MEAN, IMAGENET_STD
        return CIFAR10_MEAN, CIFAR10_STD

    def build(
        self, classes: int | None = None, mean: Channels | None = None, std: Channels | None = None
    ) -> nn.Module:
        """A model of `classes` outputs (10, or 1000 for ImageNet) that takes [0, 1] pixels."""
        mean, std = check_normalization(mean, std) or self.normalization
        classes = (1000 if self.family is ImageNetResNet else 10) if classes is None else classes
        if classes < 1:
            raise ModelError(f"A classifier has at least 1 class, got {classes}.")
        return self.family(*self.shape, classes, mean, std)  # type: ignore[arg-type]


def build(
    arch: str,
    classes: int | None = None,
    mean: Channels | None = None,
    std: Channels | None = None,
) -> nn.Module:
    """A freshly initialised model of the named architecture, its normalisation inside."""
    return parse(arch).build(classes, mean, std)


def parse(arch: str) -> Architecture:
    """The architecture behind a name."""
    if match := re.fullmatch(r"wrn-(\d{1,4})-(\d{1,3})", arch):
        depth, widen = map(int, match.groups())
        if depth < 10 or (depth - 4) % 6 or widen < 1:
            below = max(10, (depth - 4) // 6 * 6 + 4)
            raise ModelError(
                f"A WideResNet has depth 6n + 4 and widening of at least 1, got {arch!r}. "
                f"Did you mean wrn-{below}-{max(widen, 1)}?"
            )
        return Architecture(WideResNet, (depth, widen))
    if match := re.fullmatch(r"(preact-)?resnet(\d{1,3})(?:-w([1-9]\d{0,3}))?", arch):
        preact, depth, width = match[1], int(match[2]), int(match[3] or 64)
        if depth in BASIC:
            return Architecture(PreActResNet if preact else ResNet, (BASIC[depth], width))
        if depth in BOTTLENECK and not preact:
            return Architecture(ImageNetResNet, (BOTTLENECK[depth], width))
    close = difflib.get_close_matches(arch.lower(), NAMES, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    raise ModelError(f"Unknown architecture {arch!r}. {hint}Known: {GRAMMAR}.")


def default_layer(model: nn.Module) -> str | None:
    """The penultimate layer of an architecture known here, None for any other."""
    if isinstance(model, Normalized):
        inner = default_layer(model.get_submodule("model"))
        return inner and f"model.{inner}"
    usual: str | None = getattr(model, "usual_layer", None)
    return usual or PENULTIMATE.get(type(model))


def check_normalization(
    mean: Channels | None, std: Channels | None
) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Both as floats, or None when neither is given."""
    if mean is None and std is None:
        return None
    if mean is None or std is None:
        raise ModelError(f"mean and std go together, got mean={mean} and std={std}: give both.")
    floats = tuple(map(float, mean)), tuple(map(float, std))
    numbers = [*floats[0], *floats[1]]
    if len(mean) != 3 or len(std) != 3 or not all(map(math.isfinite, numbers)) or min(std) <= 0:
        raise ModelError(
            f"mean and std are three numbers each, std above 0, got {floats[0]} and {floats[1]}."
        )
    return floats
