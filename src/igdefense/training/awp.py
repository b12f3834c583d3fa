"""Adversarial weight perturbation, on top of any recipe."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.func import functional_call

from igdefense.training.recipe import Objective, Recipe, Stateful, Step
from igdefense.types import Images, Labels


@dataclass(frozen=True)
class AWP:
    """The recipe's loss at weights that were first moved to raise it (arXiv:2004.05884).

    Every weight tensor w of two axes or more moves by gamma |w| along its own gradient. The shift
    is a constant of the loss, so the model's own weights get the gradient taken there. As in the
    released code it begins after a twentieth of the training.
    """

    recipe: Recipe
    gamma: float = 5e-3
    after: float = 0.05

    @property
    def eps(self) -> float:
        return self.recipe.eps

    def objective(
        self, model: nn.Module, images: Images, labels: Labels, step: Step, rng: Generator
    ) -> Objective:
        lost = self.recipe.objective(model, images, labels, step, rng)
        if step.progress < self.after:
            return lost
        shift = weight_shift(model, lost, self.gamma)
        return lambda model: lost(Shifted(model, shift))

    def state_dict(self) -> dict[str, Any]:
        return self.recipe.state_dict() if isinstance(self.recipe, Stateful) else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if isinstance(self.recipe, Stateful):
            self.recipe.load_state_dict(state)


class Shifted(nn.Module):
    """A model at weights a constant away from its own; gradients reach its own."""

    def __init__(
        self, model: nn.Module, shift: dict[str, Tensor], *, keep_statistics: bool = False
    ) -> None:
        super().__init__()
        self.model = model
        own = dict(model.named_parameters())
        self.moved = {name: own[name] + by for name, by in shift.items()}
        if keep_statistics:  # batch norm updates these copies in place of the model's own
            self.moved |= {name: value.clone() for name, value in model.named_buffers()}

    def forward(self, images: Images) -> Tensor:
        return functional_call(self.model, self.moved, (images,))


def weight_shift(model: nn.Module, lost: Objective, gamma: float) -> dict[str, Tensor]:
    """gamma |w| g / |g| for each weight tensor w, g the slope of the loss there."""
    weights = {n: w for n, w in model.named_parameters() if w.ndim > 1 and w.requires_grad}
    here = Shifted(model, {}, keep_statistics=True)
    slopes = torch.autograd.grad(lost(here), list(weights.values()), allow_unused=True)
    return {
        name: gamma * weight.detach().norm() * slope / (slope.norm() + 1e-20)
        for (name, weight), slope in zip(weights.items(), slopes, strict=True)
        if slope is not None
    }
