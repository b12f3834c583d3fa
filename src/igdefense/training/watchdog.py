"""When a training stops by itself, and which of its epochs is kept."""

import logging
from dataclasses import dataclass

import torch

from igdefense.data.data import Data
from igdefense.errors import SettingError
from igdefense.randomness import generator
from igdefense.training.state import State

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Watchdog:
    """When to stop, and which epoch to keep.

    After each epoch PGD-10 attacks 500 fixed training images, or `validation` images that are held
    out of the training. When its accuracy falls below `collapse` times the best seen (catastrophic
    overfitting), training stops and the last good weights are kept. With held-out images the most
    robust epoch is kept, and training stops after `patience` epochs that were no better.
    """

    collapse: float = 0.6
    validation: int = 0
    patience: int | None = None

    def __post_init__(self) -> None:
        if self.validation < 0 or (self.patience is not None and self.patience < 1):
            raise SettingError(f"validation is at least 0 and patience at least 1, got {self!r}.")
        if self.patience is not None and not self.validation:
            raise SettingError("patience needs held-out images to judge by: give validation, too.")

    def split(self, data: Data, seed: int) -> tuple[Data, Data]:
        """Images to train on, and images to watch."""
        if not self.validation:
            order = torch.randperm(len(data), generator=generator(seed, "watched"))
            return data, data[order[:500]]
        if self.validation >= len(data):
            raise SettingError(
                f"validation = {self.validation} leaves none of {len(data)} images to train on."
            )
        order = torch.randperm(len(data), generator=generator(seed, "validation"))
        held, rest = order[: self.validation], order[self.validation :]
        return data[rest.sort().values], data[held.sort().values]

    def judge(self, state: State) -> bool:
        """Keep the weights if they deserve it; whether to stop."""
        scores = [record.get("pgd10", 1.0) for record in state.records]
        last, epoch = scores[-1], len(scores)
        if last < self.collapse * max(scores) and state.best:
            log.warning(
                "Catastrophic overfitting in epoch %d: PGD-10 accuracy fell to %.3f. "
                "Stopped; the weights of the last good epoch are kept.",
                epoch,
                last,
            )
            return True
        if not self.validation or last >= max(scores):
            weights = state.shown.state_dict()
            state.best = {name: tensor.clone() for name, tensor in weights.items()}
        since = epoch - 1 - max(i for i, score in enumerate(scores) if score == max(scores))
        if self.patience is not None and since >= self.patience:
            log.info("Stopped: no better on held-out images for %d epochs.", since)
            return True
        return False
