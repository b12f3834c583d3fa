"""Everything a training is made of at one moment, and its checkpoint."""

import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Generator, Tensor, nn

from igdefense.errors import OutputError
from igdefense.training.average import Average
from igdefense.training.recipe import Recipe, Stateful

log = logging.getLogger(__name__)
CHECKPOINT = "checkpoint.pt"
ADVICE = "Choose another --out, or start again with --force."


class OtherTrainingError(OutputError):
    """A checkpoint that this training cannot go on from."""


@dataclass
class State:
    """The weights and all that changes with them; `done` and `total` are of the running epoch."""

    recipe: Recipe
    model: nn.Module
    optimizer: torch.optim.Optimizer
    average: Average | None = None
    records: list[dict[str, float]] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)
    done: int = 0
    total: float = 0.0
    seconds: float = 0.0
    rng: Tensor | None = None

    @property
    def shown(self) -> nn.Module:
        """The model that is measured and kept."""
        return self.average.model if self.average else self.model

    def save(self, path: Path, settings: str, rng: Generator | None = None) -> None:
        """A whole file or the one before; `rng` is given in the middle of an epoch."""
        state: dict[str, Any] = {
            "settings": settings,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": self.average.state_dict() if self.average else None,
            "recipe": self.recipe.state_dict() if isinstance(self.recipe, Stateful) else None,
            "records": self.records,
            "best": self.best,
            "epoch": [self.done, self.total, self.seconds],
            "rng": None if rng is None else rng.get_state(),
        }
        part = path.with_suffix(".part")
        torch.save(state, part)
        part.replace(path)

    def resume(self, path: Path, settings: str) -> None:
        """Go on from the checkpoint, where there is one and it is of this training."""
        if not path.exists():
            return
        try:
            state = torch.load(path, weights_only=True)
            stored = json.loads(state["settings"])
        except Exception as error:  # a damaged or foreign file can raise anything
            raise OtherTrainingError(
                f"{path} is not a whole checkpoint of ours. {ADVICE}"
            ) from error
        if stored != json.loads(settings):
            raise OtherTrainingError(
                f"{path} belongs to a training with other settings ({state['settings']}). {ADVICE}"
            )
        try:
            self.model.load_state_dict(state["model"])
        except RuntimeError as error:
            raise OtherTrainingError(
                f"{path} belongs to a training of another architecture. {ADVICE}"
            ) from error
        self.optimizer.load_state_dict(state["optimizer"])
        if self.average:
            self.average.load_state_dict(state["average"])
        if isinstance(self.recipe, Stateful):
            self.recipe.load_state_dict(state["recipe"])
        self.records, self.best = state["records"], state["best"]
        (self.done, self.total, self.seconds), self.rng = state["epoch"], state["rng"]
        more = f" and {self.done} steps" if self.done else ""
        log.info("Resumed %s after epoch %d%s.", path, len(self.records), more)
