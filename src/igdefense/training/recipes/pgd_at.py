"""Adversarial training with projected gradient descent."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Generator, Tensor, nn

from igdefense.training.recipe import MultiStep, Objective, Step, ascend, uniform
from igdefense.types import Images, Labels


@dataclass(frozen=True, kw_only=True)
class PGDAT(MultiStep):
    """The cross-entropy on PGD's points (arXiv:1706.06083).

    With `--validation` the epoch that is most robust on held-out images is kept, which is what
    makes it the baseline of arXiv:2002.11569 (RTB).
    """

    def objective(
        self, model: nn.Module, images: Images, labels: Labels, step: Step, rng: Generator
    ) -> Objective:
        x = ascend(
            images + uniform(images, self.eps, rng),
            images,
            lambda x: F.cross_entropy(model(x), labels),
            eps=self.eps,
            step=self.step * self.eps,
            steps=self.steps,
        )

        def lost(model: nn.Module) -> Tensor:
            return self.cross_entropy(model(x), labels)

        return lost
