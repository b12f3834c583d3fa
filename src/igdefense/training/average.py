"""A moving average of a model's weights."""

import copy

import torch
from torch import Tensor, nn

from igdefense.errors import SettingError


class Average:
    """weights <- decay weights + (1 - decay) new ones; the first steps count for more.

    The decay starts at 1/10 and grows as (1 + t) / (10 + t), so that a short training does not
    end with its random start in the mean. Batch-norm statistics are averaged alike.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        if not 0 < decay < 1:
            raise SettingError(f"ema = {decay:g} is outside (0, 1); 0.999 is usual.")
        self.model, self.decay, self.steps = copy.deepcopy(model).eval(), decay, 0

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        keep = min(self.decay, (1 + self.steps) / (10 + self.steps))
        self.steps += 1
        new = model.state_dict()
        for name, value in self.model.state_dict().items():
            if value.is_floating_point():
                value.mul_(keep).add_(new[name], alpha=1 - keep)
            else:
                value.copy_(new[name])

    def state_dict(self) -> dict[str, int | dict[str, Tensor]]:
        return {"steps": self.steps, "model": self.model.state_dict()}

    def load_state_dict(self, state: dict[str, int | dict[str, Tensor]]) -> None:
        steps, weights = state["steps"], state["model"]
        assert isinstance(steps, int)
        assert isinstance(weights, dict)
        self.steps = steps
        self.model.load_state_dict(weights)
