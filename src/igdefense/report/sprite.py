"""Sprite: many small images in one picture, so that a browser decodes them once."""

import base64
import io
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from igdefense.types import Images

LARGEST = 64  # pixels of a tile's side; larger images are shrunk


@dataclass(frozen=True)
class Sprite:
    """Tiles in rows, as a data address; tile i is at column i % columns."""

    uri: str
    columns: int
    rows: int

    @classmethod
    def of(cls, images: Images, *, lossless: bool = False) -> "Sprite":
        """Images in [0, 1], with one or three channels."""
        tiles = _small(images.detach().cpu().float().clamp(0, 1))
        if tiles.shape[1] != 3:
            tiles = tiles[:, :1].expand(-1, 3, -1, -1)
        columns = max(1, math.isqrt(max(0, len(tiles) - 1)) + 1)
        rows = -(-len(tiles) // columns)
        missing = columns * rows - len(tiles)
        tiles = torch.cat([tiles, torch.zeros(missing, *tiles.shape[1:])])
        high, wide = tiles.shape[2:]
        mosaic = tiles.reshape(rows, columns, 3, high, wide).permute(0, 3, 1, 4, 2)
        pixels = (mosaic.reshape(rows * high, columns * wide, 3) * 255).round().byte().numpy()
        file = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(pixels)).save(
            file, "WEBP", lossless=lossless, quality=82, method=4
        )
        coded = base64.b64encode(file.getvalue()).decode("ascii")
        return cls(f"data:image/webp;base64,{coded}", columns, rows)


def _small(images: Tensor) -> Tensor:
    side = max(images.shape[2:])
    if side <= LARGEST:
        return images
    size = [max(1, round(length * LARGEST / side)) for length in images.shape[2:]]
    return F.interpolate(images, size=size, mode="area")
