"""Seeded, class-balanced subsets."""

import torch
from torch import Tensor

from igdefense.data.data import Data
from igdefense.errors import DataError, SettingError
from igdefense.randomness import generator


def balanced(data: Data, per_class: int, seed: int) -> Data:
    """`per_class` images of every class, class after class in turn: prefixes are balanced too."""
    return data[balanced_positions(data, per_class, seed)]


def balanced_positions(data: Data, per_class: int, seed: int) -> Tensor:
    """Where those images are."""
    if per_class < 1:
        raise SettingError(f"per_class must be at least 1, got {per_class}.")
    chosen = []
    for label, name in enumerate(data.class_names):
        positions = (data.labels == label).nonzero().flatten()
        if len(positions) < per_class:
            raise DataError(
                f"Class {name!r} has {len(positions)} images, fewer than the {per_class} "
                "asked for of each class."
            )
        order = torch.randperm(len(positions), generator=generator(seed, "balanced", label))
        chosen.append(positions[order[:per_class].to(positions.device)])
    return torch.stack(chosen, dim=1).flatten()
