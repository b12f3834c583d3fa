"""Nuclear-norm adversarial training."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from igdefense.training.recipe import LinfRecipe, Objective, Step, ascend, corners, evaluating
from igdefense.types import Images, Labels, Logits


@dataclass(frozen=True, kw_only=True)
class NuAT(LinfRecipe):
    """One step; the batch's change of logits is kept small in the nuclear norm (NeurIPS 2021).

    Sriramanan et al., Towards Efficient and Effective Adversarial Training
    (openreview.net/forum?id=kuK2VARZGnI; not on arXiv). The attack starts at random corners of
    half the budget and climbs the cross-entropy plus, on every other batch, the norm. This is the
    single-step variant without its cyclic-step schedule; with `--ema` it is NuAT-WA.
    """

    weight: float = 4.0

    def objective(
        self, model: nn.Module, images: Images, labels: Labels, step: Step, rng: Generator
    ) -> Objective:
        guided = self.weight * (step.number % 2)
        with evaluating(model):
            with torch.no_grad():
                clean = model(images)

            def climbed(x: Images) -> Tensor:
                logits = model(x)
                loss = F.cross_entropy(logits, labels)
                return loss + guided * nuclear(logits - clean) if guided else loss

            start = (images + corners(images, self.eps / 2, rng)).clamp(0, 1)
            x = ascend(start, images, climbed, eps=self.eps, step=self.eps, steps=1)

        def lost(model: nn.Module) -> Tensor:
            clean = model(images)
            change = model(x) - clean
            return self.cross_entropy(clean, labels) + self.weight * nuclear(change)

        return lost


def nuclear(change: Logits) -> Tensor:
    """The sum of the singular values of the batch's rows, divided by how many there are."""
    return torch.linalg.matrix_norm(change, "nuc") / len(change)
