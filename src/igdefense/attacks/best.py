"""Which of the points an attack has visited it hands back."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from igdefense.attacks.losses import Losses
from igdefense.types import Images, Outcomes

Best = Literal["adversarial", "highest", "strict"]


@dataclass(frozen=True, eq=False)
class Found:
    """The point kept for each image so far, its loss, and whether the view misclassifies it."""

    x: Images
    loss: Losses
    broken: Outcomes

    def keep(self, other: "Found", better: "Better") -> "Found":
        """The other's point wherever it is the better one."""
        new = better(self, other)
        return Found(
            torch.where(new.view(-1, 1, 1, 1), other.x, self.x),
            torch.where(new, other.loss, self.loss),
            torch.where(new, other.broken, self.broken),
        )

    def put(self, index: Tensor, other: "Found") -> "Found":
        """The other's points at these positions."""
        return Found(
            self.x.index_copy(0, index, other.x),
            self.loss.index_copy(0, index, other.loss),
            self.broken.index_copy(0, index, other.broken),
        )

    def __getitem__(self, index: Tensor) -> "Found":
        return Found(self.x[index], self.loss[index], self.broken[index])


Better = Callable[[Found, Found], Tensor]


def latest_broken(old: Found, new: Found) -> Tensor:  # noqa: ARG001
    """AutoAttack's meaning: the last misclassified point."""
    return new.broken


def higher(old: Found, new: Found) -> Tensor:
    """The point of highest loss, misclassified or not."""
    return new.loss > old.loss


def broken_then_higher(old: Found, new: Found) -> Tensor:
    """A misclassified point before any other, and of two alike the one of higher loss."""
    gains = new.broken & ~old.broken
    return gains | ((new.broken == old.broken) & (new.loss > old.loss))


BETTER: dict[Best, Better] = {
    "adversarial": latest_broken,
    "highest": higher,
    "strict": broken_then_higher,
}


def nothing_yet(images: Images, broken: Tensor | None = None) -> Found:
    """The clean images, with a loss that anything exceeds."""
    lowest = torch.full((len(images),), -float("inf"), dtype=images.dtype, device=images.device)
    return Found(images, lowest, torch.zeros_like(lowest).bool() if broken is None else broken)
