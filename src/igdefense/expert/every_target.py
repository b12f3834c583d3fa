"""APGD on the bare margin towards every target, and a choice among the points by the defense.

Two attacks with targets cannot be compared by their losses, and an attack on a surrogate cannot
know which of its points the deployed defense gets wrong. So the adversary does what it can do in
truth: it asks the defense. Of each image's points, one for each target, that one is handed back
which most of a few fresh draws misclassify; of points alike in this, the one with the larger mean
margin. The draws are not those the verdict is made on.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn

from igdefense.attacks.attack import require_positive
from igdefense.attacks.best import Found, higher
from igdefense.attacks.climb import FRESH, WARM, climb
from igdefense.attacks.losses import Loss, Losses, cw, targeted_cw
from igdefense.attacks.objective import likeliest_targets
from igdefense.attacks.threat import Threat
from igdefense.attacks.views import View, as_view, sharing
from igdefense.randomness import Streams
from igdefense.types import Images, Labels

Aim = Callable[[Tensor, Labels], tuple[View, Loss]]
"""What to climb for the images at some positions, towards their targets."""


@dataclass(frozen=True, kw_only=True)
class EveryTarget:
    """APGD on z_t - z_y towards each target; the chooser says which point is handed back.

    Without a chooser that is the point of largest margin. With `start` every run begins there. An
    image that all draws of the chooser get wrong rests.
    """

    version: ClassVar[int] = 1

    threat: Threat
    steps: int = 100
    targets: int | None = None  # None is min(9, classes - 1)

    def __post_init__(self) -> None:
        require_positive(self, "steps", "targets")

    def __call__(
        self,
        view: View | nn.Module,
        images: Images,
        labels: Labels,
        rng: Generator | Streams,
        start: Images | None = None,
        chooser: View | nn.Module | None = None,
    ) -> Images:
        aim, targets = self.plan(as_view(view), images, labels)
        chase = Chase(self.threat, self.steps, start, chooser)
        return chase(aim, targets, images, labels, rng)

    def plan(self, view: View, images: Images, labels: Labels) -> tuple[Aim, Tensor]:
        """What to climb towards a target, and the targets of each image; children have others."""

        def aim(left: Tensor, goal: Labels) -> tuple[View, Loss]:
            return view[left], partial(targeted_cw, targets=goal)

        return aim, likeliest_targets(view, images, labels, self.targets)


@dataclass(frozen=True, eq=False)
class Chase:
    """One climb for each target, the best point so far by the chooser's word."""

    threat: Threat
    steps: int
    start: Images | None
    chooser: View | nn.Module | None

    def __call__(
        self,
        aim: Aim,
        targets: Tensor,
        images: Images,
        labels: Labels,
        rng: Generator | Streams,
    ) -> Images:
        rng = Streams.of(rng, len(images))
        x, rate, margin = images, *_nothing(images)
        if self.start is not None:
            x = self.threat.project(self.start, images)
            if self.chooser is not None:
                rate, margin = asked(as_view(self.chooser), x, labels)
        for rank in range(targets.shape[1]):
            left = (rate < 1).nonzero().flatten()
            if not len(left):
                break
            view, loss = aim(left, targets[left, rank])
            run = self._climb(view, loss, images[left], labels[left], left, rng, rank)
            if self.chooser is None:
                tried = torch.zeros_like(run.loss), run.loss
            else:
                tried = asked(as_view(self.chooser)[left], run.x, labels[left])
            better = (tried[0] > rate[left]) | (
                (tried[0] == rate[left]) & (tried[1] > margin[left])
            )
            new = left[better]
            x = x.index_copy(0, new, run.x[better])
            rate = rate.index_copy(0, new, tried[0][better])
            margin = margin.index_copy(0, new, tried[1][better])
        return x

    def _climb(
        self,
        view: View,
        loss: Loss,
        clean: Images,
        labels: Labels,
        left: Tensor,
        rng: Streams,
        rank: int,
    ) -> Found:
        warm = self.start is not None
        if self.start is not None:
            begin = self.threat.project(self.start[left], clean)
        else:
            begin = self.threat.random(clean, rng[left].child("start", rank))
        return climb(
            view,
            clean,
            labels,
            loss,
            begin,
            threat=self.threat,
            steps=self.steps,
            better=higher,
            stride=WARM if warm else FRESH,
        )


@torch.no_grad()
def asked(view: View, x: Images, labels: Labels) -> tuple[Losses, Losses]:
    """The share of the view's draws that are wrong about each image, and the mean margin."""
    rate = torch.zeros(len(x), dtype=x.dtype, device=x.device)
    margin = torch.zeros_like(rate)
    view = sharing(view, x, view.samples)
    for _ in range(view.samples):
        logits = view(x)
        rate += logits.argmax(1) != labels
        margin += cw(logits, labels)
    return rate / view.samples, margin / view.samples


def _nothing(images: Images) -> tuple[Losses, Losses]:
    lowest = torch.full((len(images),), -float("inf"), dtype=images.dtype, device=images.device)
    return lowest, lowest.clone()
