"""How an image of any size becomes one of the size a model takes."""

import re
from dataclasses import dataclass

from PIL import Image

from igdefense.errors import DataError

NAMES = "Res256Crop224, Crop288, BicubicRes256Crop224 or the like"


@dataclass(frozen=True)
class Crop:
    """The shorter side becomes `resize` (None: as it is), then the middle `size` x `size` is kept.

    Pixel by pixel what torchvision's Resize and CenterCrop do, which RobustBench uses.
    """

    size: int
    resize: int | None
    bicubic: bool = False

    @classmethod
    def named(cls, name: str) -> "Crop":
        """RobustBench's names: `Res256Crop224`, `Crop288`, `BicubicRes256Crop224`."""
        found = re.fullmatch(r"(bicubic)?(?:res([1-9]\d*))?crop([1-9]\d*)", name.lower())
        if found is None or (found[1] and not found[2]):
            raise DataError(f"Unknown crop {name!r}; expected {NAMES}.")
        return cls(int(found[3]), int(found[2]) if found[2] else None, bool(found[1]))

    @classmethod
    def whole(cls, size: int) -> "Crop":
        """As much of the image as a square can hold."""
        return cls(size, size)

    @classmethod
    def imagenet(cls, size: int) -> "Crop":
        """224 of 256 in this proportion; 288 without resizing, as for RobustBench's FAT."""
        return cls(size, None if size == 288 else round(size * 256 / 224))

    def __call__(self, picture: Image.Image) -> Image.Image:
        if self.resize is not None and min(picture.size) != self.resize:
            short = min(picture.size)
            width, height = (
                self.resize if side == short else int(self.resize * side / short)
                for side in picture.size
            )
            how = Image.Resampling.BICUBIC if self.bicubic else Image.Resampling.BILINEAR
            picture = picture.resize((width, height), how)
        if min(picture.size) < self.size:  # black around a small one
            width, height = (max(self.size, side) for side in picture.size)
            larger = Image.new("RGB", (width, height))
            larger.paste(picture, ((width - picture.width) // 2, (height - picture.height) // 2))
            picture = larger
        left, top = (round((side - self.size) / 2) for side in picture.size)
        return picture.crop((left, top, left + self.size, top + self.size))
