"""Diverse augmentation-based joint adversarial training."""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn

from igdefense.training.augment import distort
from igdefense.training.recipe import MultiStep, Objective, Step, kl
from igdefense.training.recipes.trades import push_away
from igdefense.types import Images, Labels, Logits


@dataclass(frozen=True, kw_only=True)
class DAJAT(MultiStep):
    """Simply and strongly augmented images in one loss, held together by JS (arXiv:2210.15318).

    Each view has TRADES' loss, with a budget that grows from 0 to eps over the training and two
    steps of that size; the Jensen-Shannon divergence of the clean predictions ties the views.
    Different from the paper: our own distortions stand in for AutoAugment, and the views share
    their batch-norm statistics. `--awp` adds its weight perturbation, `--ema` its averaging.
    """

    steps: int = 2
    step: float = 1.0
    beta: float = 11.0
    views: int = 2
    tie: float = 2.0

    def objective(
        self, model: nn.Module, images: Images, labels: Labels, step: Step, rng: Generator
    ) -> Objective:
        eps = self.eps * step.progress
        views = [images, *(distort(images, rng) for _ in range(self.views))]
        attacked = [
            push_away(model, view, eps=eps, step=self.step * eps, steps=self.steps, rng=rng)
            for view in views
        ]

        def lost(model: nn.Module) -> Tensor:
            clean = [model(view) for view in views]
            each = [
                self.cross_entropy(logits, labels) + self.beta * kl(logits, model(x))
                for logits, x in zip(clean, attacked, strict=True)
            ]
            return torch.stack(each).mean() + self.tie * jensen_shannon(clean)

        return lost


def jensen_shannon(views: list[Logits]) -> Tensor:
    """The mean divergence of each view's probabilities from their mean."""
    logs = torch.stack([logits.log_softmax(1) for logits in views])
    middle = logs.exp().mean(0).clamp(min=1e-7).log()
    return (logs.exp() * (logs - middle)).sum(2).mean()
