"""Fast adversarial training."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from igdefense.training.recipe import LinfRecipe, Objective, Step, uniform
from igdefense.types import Images, Labels


@dataclass(frozen=True, kw_only=True)
class FAT(LinfRecipe):
    """One FGSM step from a random start (arXiv:2001.03994)."""

    step: float = 10 / 255

    def objective(
        self, model: nn.Module, images: Images, labels: Labels, step: Step, rng: Generator
    ) -> Objective:
        delta = uniform(images, self.eps, rng).requires_grad_()
        loss = self.cross_entropy(model(images + delta), labels)
        (gradient,) = torch.autograd.grad(loss, delta)
        delta = (delta.detach() + self.step * gradient.sign()).clamp(-self.eps, self.eps)
        x = (images + delta).clamp(0, 1)

        def lost(model: nn.Module) -> Tensor:
            return self.cross_entropy(model(x), labels)

        return lost
