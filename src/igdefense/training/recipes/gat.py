"""Guided adversarial training."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from igdefense.training.recipe import LinfRecipe, Objective, Step, ascend, corners, evaluating
from igdefense.types import Images, Labels, Logits


@dataclass(frozen=True, kw_only=True)
class GAT(LinfRecipe):
    """One step, guided by the squared distance of the probabilities (arXiv:2011.14969).

    The attack starts at random corners of half the budget and climbs the cross-entropy, plus, on
    every other batch, `weight` times the squared distance from the clean probabilities; training
    lowers the clean cross-entropy plus that distance. The weight is multiplied by `late` after 86
    of 100 epochs, as published for CIFAR-10.
    """

    weight: float = 10.0
    late: float = 4.0

    def objective(
        self, model: nn.Module, images: Images, labels: Labels, step: Step, rng: Generator
    ) -> Objective:
        weight = self.weight * (self.late if step.progress > 0.86 else 1.0)
        guided = weight * (step.number % 2)
        with evaluating(model):
            with torch.no_grad():
                clean = model(images)

            def climbed(x: Images) -> Tensor:
                logits = model(x)
                return F.cross_entropy(logits, labels) + guided * distance(clean, logits)

            start = (images + corners(images, self.eps / 2, rng)).clamp(0, 1)
            x = ascend(start, images, climbed, eps=self.eps, step=self.eps, steps=1)

        def lost(model: nn.Module) -> Tensor:
            clean = model(images)
            return self.cross_entropy(clean, labels) + weight * distance(clean, model(x))

        return lost


def distance(clean: Logits, attacked: Logits) -> Tensor:
    """The squared distance of the probabilities, mean over images."""
    return (attacked.softmax(1) - clean.softmax(1)).square().sum(1).mean()
