"""TRADES."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from igdefense.training.recipe import MultiStep, Objective, Step, ascend, evaluating, kl
from igdefense.types import Images, Labels


@dataclass(frozen=True, kw_only=True)
class TRADES(MultiStep):
    """Cross-entropy on clean images, and how far an attack moves them (arXiv:1901.08573)."""

    beta: float = 6.0

    def objective(
        self, model: nn.Module, images: Images, labels: Labels, step: Step, rng: Generator
    ) -> Objective:
        x = push_away(
            model, images, eps=self.eps, step=self.step * self.eps, steps=self.steps, rng=rng
        )

        def lost(model: nn.Module) -> Tensor:
            clean = model(images)
            return self.cross_entropy(clean, labels) + self.beta * kl(clean, model(x))

        return lost


def push_away(
    model: nn.Module, images: Images, *, eps: float, step: float, steps: int, rng: Generator
) -> Images:
    """Points whose probabilities are far from the clean images', by KL, in eval mode."""
    start = images + 0.001 * torch.randn(images.shape, generator=rng).to(images)
    with evaluating(model):
        with torch.no_grad():
            clean = model(images)
        return ascend(
            start,
            images,
            lambda x: kl(clean, model(x)),
            eps=eps,
            step=step,
            steps=steps,
        )
