"""Data: images in [0, 1], their labels and the names of the classes."""

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import UInt8
from torch import Tensor

from igdefense.errors import DataError
from igdefense.types import Images, Labels

Index = slice | Tensor | list[int]


@runtime_checkable
class ImageSource(Protocol):
    """Images read when asked for, so that a data set need not fit in memory."""

    @property
    def shape(self) -> torch.Size: ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: Index, /) -> Tensor: ...


class Pixels:
    """Images kept as bytes, four times smaller than floats; indexing gives [0, 1] floats."""

    def __init__(self, bytes: UInt8[Tensor, "images channels height width"]) -> None:
        self.bytes = bytes

    @property
    def shape(self) -> torch.Size:
        return self.bytes.shape

    def __len__(self) -> int:
        return len(self.bytes)

    def __getitem__(self, index: Index, /) -> Tensor:
        return self.bytes[index].float() / 255


class Chosen:
    """Some images of a source, in a given order, still unread."""

    def __init__(self, source: ImageSource, positions: Tensor) -> None:
        self.source, self.positions = source, positions

    @property
    def shape(self) -> torch.Size:
        return torch.Size((len(self), *self.source.shape[1:]))

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, index: Index, /) -> Tensor:
        return self.source[self.positions[index]]


@dataclass(frozen=True, eq=False)
class Data:
    """Labelled images; indexing with a slice or a tensor of positions gives a smaller Data."""

    images: Tensor | ImageSource
    labels: Labels
    class_names: Sequence[str] = field(default=())

    def __post_init__(self) -> None:
        if len(self.images) != len(self.labels):
            raise DataError(f"There are {len(self.images)} images but {len(self.labels)} labels.")
        if len(self.images) == 0:
            raise DataError("The data holds no images.")
        if len(self.images.shape) != 4:
            raise DataError(
                f"Images have shape {tuple(self.images.shape)}; "
                "expected (images, channels, height, width)."
            )
        names = tuple(self.class_names) or tuple(map(str, range(int(self.labels.max()) + 1)))
        object.__setattr__(self, "class_names", names)
        low, high = int(self.labels.min()), int(self.labels.max())
        if low < 0 or high >= len(names):
            wrong = low if low < 0 else high
            raise DataError(
                f"Label {wrong} is outside the {len(names)} classes (0 to {len(names) - 1})."
            )
        if isinstance(self.images, Tensor):
            check_pixels(self.images)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: Index) -> "Data":
        return Data(_part(self.images, index), self.labels[index], self.class_names)

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.images.shape[1:]))
        return f"Data({len(self)} images of {size}, {len(self.class_names)} classes)"

    def batches(self, size: int = 100) -> Iterator[tuple[Images, Labels]]:
        """The images and labels in order, `size` at a time; files are read one batch ahead."""
        parts = [slice(start, start + size) for start in range(0, len(self), size)]
        if isinstance(self.images, Tensor | Pixels):
            yield from ((self.images[part], self.labels[part]) for part in parts)
            return
        with ThreadPoolExecutor(1) as reader:
            ahead = reader.submit(self.images.__getitem__, parts[0])
            for part, following in zip(parts, [*parts[1:], None], strict=True):
                images = ahead.result()
                check_pixels(images)
                if following is not None:
                    ahead = reader.submit(self.images.__getitem__, following)
                yield images, self.labels[part]

    @cached_property
    def fingerprint(self) -> str:
        """Names the content: pixels to 16 bits, labels and class names."""
        digest = hashlib.sha256(repr((tuple(self.images.shape), self.class_names)).encode())
        for images, labels in self.batches(500):
            digest.update((images * 65535).round().to(torch.int32).cpu().numpy().tobytes())
            digest.update(labels.to(torch.int64).cpu().numpy().tobytes())
        return digest.hexdigest()[:16]


def _part(images: Tensor | ImageSource, index: Index) -> Tensor | ImageSource:
    """Some of the images; bytes stay bytes, and files stay unread."""
    if isinstance(images, Tensor):
        return images[index]
    if isinstance(images, Pixels):
        return Pixels(images.bytes[index])
    if isinstance(images, Chosen):
        return Chosen(images.source, images.positions[index])
    return Chosen(images, torch.arange(len(images))[index])


def check_pixels(images: Tensor) -> None:
    """Refuse images that are not pixels in [0, 1]."""
    if not images.is_floating_point():
        raise DataError(
            f"Images are {images.dtype}; expected floats in [0, 1]. Divide bytes by 255, "
            "or wrap them in igdefense.data.Pixels."
        )
    low, high = images.aminmax()
    if not (low >= 0 and high <= 1):  # a NaN fails both
        raise DataError(
            f"Pixels run from {low.item():.4g} to {high.item():.4g}; expected [0, 1] without NaN. "
            "Normalisation belongs inside the model (igdefense.models.Normalized)."
        )
