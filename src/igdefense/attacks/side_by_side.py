"""Runs of an attack side by side while few images are left: in a full batch each costs less."""

import torch

from igdefense.attacks.losses import Loss
from igdefense.attacks.views import Direct, View
from igdefense.types import Labels, Logits

FULL = 32  # rows of a batch; convolutions gain little beyond


def runs_at_once(view: View, left: int, runs: int) -> int:
    """How many of the next runs to do in one batch of the images left.

    One where the view draws noise: an image's draws are counted, one run after another.
    """
    return min(runs, max(1, FULL // left)) if isinstance(view, Direct) else 1


def joined(losses: list[Loss]) -> Loss:
    """The losses of several runs, each for its equal part of the batch."""
    if len(losses) == 1:
        return losses[0]

    def loss(logits: Logits, labels: Labels) -> torch.Tensor:
        parts = zip(losses, logits.chunk(len(losses)), labels.chunk(len(losses)), strict=True)
        return torch.cat([one(z, y) for one, z, y in parts])

    return loss
