"""Image files, read when asked for."""

import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from igdefense.data.data import Index
from igdefense.errors import DataError

log = logging.getLogger(__name__)
EIGHT_BIT = ("RGB", "L", "P", "RGBA", "LA", "PA", "1", "CMYK", "YCbCr")
UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError)


class FolderImages:
    """Image files decoded at each access; memory holds their paths only."""

    def __init__(self, paths: Sequence[Path], size: int | None = None) -> None:
        self.paths, self.size = list(map(str, paths)), size
        modes: Counter[str] = Counter()
        first: tuple[int, int] | None = None
        for path in self.paths:
            mode, (width, height) = _header(path)
            modes[mode] += mode != "RGB"
            first = first or (width, height)
            if size is None and (width, height) != first:
                raise DataError(
                    f"{path} is {width} x {height} but {self.paths[0]} is {first[0]} x {first[1]}: "
                    "images must have one size, or give `size` to resize and crop them."
                )
        width, height = (size, size) if size else first or (0, 0)
        self.shape = torch.Size((len(self.paths), 3, height, width))
        if converted := modes.total():
            kinds = ", ".join(sorted(mode for mode, count in modes.items() if count))
            log.info("%d of %d images (%s) become RGB.", converted, len(self.paths), kinds)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: Index, /) -> Tensor:
        chosen = torch.arange(len(self))[index].tolist()
        images = torch.empty(len(chosen), *self.shape[1:])
        for image, position in zip(images, chosen, strict=True):
            image.copy_(self._decode(self.paths[position]))
        return images

    def _decode(self, path: str) -> Tensor:
        try:
            with Image.open(path) as file:
                picture = file.convert("RGBA") if "transparency" in file.info else file
                picture = picture.convert("RGB")
        except UNREADABLE as error:
            raise _unreadable(path, error) from error
        if self.size:
            picture = _resize(picture, self.size)
        pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
        if pixels.shape != self.shape[1:]:
            raise DataError(f"{path} changed its size while it was in use: load the data again.")
        return pixels.float() / 255


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


def _resize(picture: Image.Image, size: int) -> Image.Image:
    """The shorter side becomes `size`, the middle of the longer one is kept."""
    short = min(picture.size)
    width, height = (max(size, round(side * size / short)) for side in picture.size)
    picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - size) // 2, (height - size) // 2
    return picture.crop((left, top, left + size, top + size))
