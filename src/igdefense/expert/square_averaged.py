"""A9, averaged Square: random search that is not satisfied with one lucky answer.

Why: Square stops for an image at its first wrong answer. On a random defense some draw is wrong
sooner or later while the image is still right on average, so the search ends early at a point of
no use. The authors' advice for random models is to average the loss and drop the early stop.

What is asked: the margin's mean over `square_draws` draws of each candidate; no gradient at all, so
vanishing gradients cannot help. The search goes on to the last query for every image and hands
back the point of lowest mean margin.

What it would show: images that fall here and stand under the gradient attacks mean that the
gradients are poor. It works for any defense.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn

from igdefense.attacks.attack import require_positive
from igdefense.attacks.square import SquareOnView
from igdefense.attacks.suites import Budget, Column
from igdefense.attacks.threat import Linf, Threat
from igdefense.attacks.views import View, as_view
from igdefense.randomness import Streams
from igdefense.types import Images, Labels


@dataclass(frozen=True, kw_only=True)
class AveragedSquare:
    """`Square` to the last query; the point of lowest mean margin, wrong or not."""

    version: ClassVar[int] = 1

    threat: Threat
    queries: int = 1000
    p_init: float = 0.8  # the share of the pixels in the first squares

    def __post_init__(self) -> None:
        require_positive(self, "queries")

    @torch.no_grad()
    def __call__(
        self, view: View | nn.Module, images: Images, labels: Labels, rng: Generator | Streams
    ) -> Images:
        view, rng = as_view(view), Streams.of(rng, len(images))
        if not len(images):
            return images.clone()
        square = _ToTheEnd(view, labels, rng.child("start", 0), 0)
        return square.run(images.contiguous(), self.threat, self.queries, self.p_init)


class _ToTheEnd(SquareOnView):
    """Never says that an image is broken, so that the parent compares losses only."""

    def margin_and_loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        _, loss = super().margin_and_loss(x, y)
        return torch.ones_like(loss), loss


def columns(threat: Linf, budget: Budget) -> tuple[Column, ...]:
    return (
        Column(
            name="square-averaged",
            attack=AveragedSquare(threat=threat, queries=budget.square_expert_queries),
            samples=budget.square_draws,
            gradient=False,
            group="expert",
            rank=8,
        ),
    )
