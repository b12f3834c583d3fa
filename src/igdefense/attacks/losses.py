"""What an attack climbs, one number an image: the higher, the worse for the defender."""

from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from igdefense.types import Labels, Logits

Losses = Float[Tensor, " batch"]
Loss = Callable[[Logits, Labels], Tensor]
TargetedLoss = Callable[[Logits, Labels, Labels], Tensor]
LossName = Literal["ce", "dlr", "cw", "ce-rescaled"]
TargetedLossName = Literal["dlr", "cw"]


def cross_entropy(logits: Logits, labels: Labels) -> Losses:
    """-log softmax(z)_y."""
    return F.cross_entropy(logits, labels, reduction="none")


def rescaled_cross_entropy(logits: Logits, labels: Labels) -> Losses:
    """The margin, with the gradient of the cross-entropy of logits over their own top-2 gap.

    However large the logits are, that softmax neither saturates nor underflows (the idea of MIFPE).
    Its value is of no use to compare points by: nearer the boundary the gap, taken for a constant,
    shrinks, and the cross-entropy of a class that is still right falls.
    """
    top = logits.detach().topk(2).values
    gap = (top[:, :1] - top[:, 1:]).clamp(min=1e-6)
    slope = cross_entropy(logits / gap, labels)
    return cw(logits, labels).detach() + (slope - slope.detach())


def cw(logits: Logits, labels: Labels) -> Losses:
    """The margin max_{j != y} z_j - z_y, without kappa (arXiv:1608.04644)."""
    others = logits.scatter(1, labels.unsqueeze(1), -float("inf")).max(1).values
    return others - _logit_of(labels, logits)


def dlr(logits: Logits, labels: Labels) -> Losses:
    """The margin over z_(1) - z_(3), bare if there are fewer than 3 classes (arXiv:2003.01690)."""
    if logits.shape[1] < 3:
        return cw(logits, labels)
    top = logits.topk(3).values
    return cw(logits, labels) / (top[:, 0] - top[:, 2] + 1e-12)


def targeted_cw(logits: Logits, labels: Labels, targets: Labels) -> Losses:
    """z_t - z_y."""
    return _logit_of(targets, logits) - _logit_of(labels, logits)


def targeted_dlr(logits: Logits, labels: Labels, targets: Labels) -> Losses:
    """z_t - z_y over z_(1) - (z_(3) + z_(4)) / 2, bare if there are fewer than 4 classes."""
    margin = targeted_cw(logits, labels, targets)
    if logits.shape[1] < 4:
        return margin
    top = logits.topk(4).values
    return margin / (top[:, 0] - 0.5 * (top[:, 2] + top[:, 3]) + 1e-12)


def _logit_of(classes: Labels, logits: Logits) -> Losses:
    return logits.gather(1, classes.unsqueeze(1)).squeeze(1)


LOSSES: dict[LossName, Loss] = {
    "ce": cross_entropy,
    "dlr": dlr,
    "cw": cw,
    "ce-rescaled": rescaled_cross_entropy,
}
TARGETED_LOSSES: dict[TargetedLossName, TargetedLoss] = {"dlr": targeted_dlr, "cw": targeted_cw}
