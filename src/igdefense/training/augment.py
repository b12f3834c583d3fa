"""Random crop and flip on bytes, and distortions of pixels, from an explicit generator."""

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from igdefense.types import Images


def crop_and_flip(bytes: Tensor, rng: Generator, padding: int = 4) -> Tensor:
    """Each image shifted by up to `padding` pixels (zeros come in) and mirrored half the time."""
    count, _, height, width = bytes.shape
    padded = F.pad(bytes, (padding,) * 4)
    top = torch.randint(2 * padding + 1, (count, 1), generator=rng)
    left = torch.randint(2 * padding + 1, (count, 1), generator=rng)
    mirrored = torch.randint(2, (count, 1), generator=rng).bool()
    columns = torch.arange(width).expand(count, -1)
    columns = torch.where(mirrored, columns.flip(1), columns) + left
    rows = torch.arange(height) + top
    image = torch.arange(count)[:, None, None]
    cropped = padded.permute(0, 2, 3, 1)[image, rows[:, :, None], columns[:, None, :]]
    return cropped.permute(0, 3, 1, 2)


def distort(images: Images, rng: Generator) -> Images:
    """Each image turned and sheared a little, its contrast, colour or tones changed, a hole cut."""
    count, _, height, width = images.shape
    draws = torch.rand(count, 6, generator=rng).to(images)
    angle, shear = (draws[:, 0] - 0.5) * math.pi / 6, (draws[:, 1] - 0.5) * 0.6
    cos, sin, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
    rows = torch.stack([cos, shear - sin, zero, sin, cos, zero], dim=1).view(-1, 2, 3)
    grid = F.affine_grid(rows, list(images.shape), align_corners=False)
    out = F.grid_sample(images, grid, padding_mode="reflection", align_corners=False)
    wide = draws.view(count, 6, 1, 1, 1)
    kind = (wide[:, 2] * 4).floor()
    level = 0.4 + 1.2 * wide[:, 3]
    grey = out.mean(1, keepdim=True)
    contrast = grey.mean((2, 3), keepdim=True) + level * (out - grey.mean((2, 3), keepdim=True))
    colour = grey + level * (out - grey)
    solarized = torch.where(out > wide[:, 3], 1 - out, out)
    posterized = (out * 8).floor() / 8
    for chosen, changed in enumerate((contrast, colour, solarized, posterized)):
        out = torch.where(kind == chosen, changed, out)
    y, x = torch.arange(height).to(images), torch.arange(width).to(images)
    side = 0.25 * min(height, width)
    tall = (y - draws[:, 4:5] * height).abs() < side / 2
    across = (x - draws[:, 5:6] * width).abs() < side / 2
    hole = (tall[:, :, None] & across[:, None, :])[:, None]
    return out.masked_fill(hole, 0.5).clamp(0, 1)
