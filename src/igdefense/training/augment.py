"""Random crop and flip on bytes, from an explicit generator."""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor


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
