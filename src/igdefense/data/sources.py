"""Images read when asked for, several at a time."""

import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from igdefense.data.crops import Crop
from igdefense.data.data import Index
from igdefense.errors import DataError

log = logging.getLogger(__name__)
EIGHT_BIT = ("RGB", "L", "P", "RGBA", "LA", "PA", "1", "CMYK", "YCbCr")
UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError)
T = TypeVar("T")
R = TypeVar("R")


class FolderImages:
    """Image files decoded at each access; memory holds their paths only."""

    def __init__(self, paths: Sequence[Path], crop: Crop | int | None = None) -> None:
        self.paths = list(map(str, paths))
        self.crop = Crop.whole(crop) if isinstance(crop, int) else crop
        modes: Counter[str] = Counter()
        first: tuple[int, int] | None = None
        for path, (mode, size) in zip(self.paths, in_parallel(_header, self.paths), strict=True):
            modes[mode] += mode != "RGB"
            first = first or size
            if self.crop is None and size != first:
                raise DataError(
                    f"{path} is {size[0]} x {size[1]} but {self.paths[0]} is {first[0]} x "
                    f"{first[1]}: images must have one size, or give `size` to resize and crop "
                    "them."
                )
        width, height = (self.crop.size, self.crop.size) if self.crop else first or (0, 0)
        self.shape = torch.Size((len(self.paths), 3, height, width))
        if converted := modes.total():
            kinds = ", ".join(sorted(mode for mode, count in modes.items() if count))
            log.info("%d of %d images (%s) become RGB.", converted, len(self.paths), kinds)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: Index, /) -> Tensor:
        chosen = torch.arange(len(self))[index].tolist()
        return filled(self.shape[1:], self._decode, [self.paths[position] for position in chosen])

    def _decode(self, path: str) -> Tensor:
        try:
            with Image.open(path) as file:
                picture = as_rgb(file)
        except UNREADABLE as error:
            raise _unreadable(path, error) from error
        pixels = as_pixels(self.crop(picture) if self.crop else picture)
        if pixels.shape != self.shape[1:]:
            raise DataError(f"{path} changed its size while it was in use: load the data again.")
        return pixels


def filled(shape: torch.Size, decode: Callable[[T], Tensor], items: Sequence[T]) -> Tensor:
    """The images of these items as floats in [0, 1], decoded in parallel."""
    images = torch.empty(len(items), *shape)
    for image, pixels in zip(images, in_parallel(decode, items), strict=True):
        torch.div(pixels, 255, out=image)
    return images


def as_rgb(picture: Image.Image) -> Image.Image:
    """Transparency is left out, the colours are kept."""
    picture = picture.convert("RGBA") if "transparency" in picture.info else picture
    return picture.convert("RGB")


def as_pixels(picture: Image.Image) -> Tensor:
    """Bytes: channels x height x width."""
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1)


def in_parallel(function: Callable[[T], R], items: Sequence[T]) -> Sequence[R]:
    """The results in order; Pillow decodes and resizes outside the interpreter's lock."""
    if len(items) < 4:
        return [function(item) for item in items]
    return list(_readers().map(function, items))


@cache
def _readers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(8, os.cpu_count() or 1), thread_name_prefix="images")


def _header(path: str) -> tuple[str, tuple[int, int]]:
    try:
        with Image.open(path) as file:
            mode, size = file.mode, file.size
    except UNREADABLE as error:
        raise _unreadable(path, error) from error
    if mode not in EIGHT_BIT:
        raise DataError(f"{path} has more than 8 bits a channel (mode {mode}): save it with 8.")
    return mode, size


def _unreadable(path: str, error: BaseException) -> DataError:
    reason = str(error).strip() or type(error).__name__
    return DataError(f"{path} is not a readable image ({reason}): replace or remove it.")
