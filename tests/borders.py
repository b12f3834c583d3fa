"""The edge of a picture, where no ink should be."""

import torch
from torch import Tensor


def edges(pixels: bytes, size: tuple[int, int]) -> set[int]:
    """The values of the outermost pixels."""
    grid: Tensor = torch.frombuffer(bytearray(pixels), dtype=torch.uint8)
    grid = grid.reshape(size[1], size[0], 3)
    outer = torch.cat([grid[:8].flatten(), grid[-8:].flatten()])
    sides = torch.cat([grid[:, :8].flatten(), grid[:, -8:].flatten()])
    return set(torch.cat([outer, sides]).unique().tolist())
