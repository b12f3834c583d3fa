"""Projected gradient ascent: many steps, one step, and with GAMA's relaxed objective."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, nn

from igdefense.attacks.attack import require_known, require_positive
from igdefense.attacks.losses import LOSSES, Losses, LossName, cw
from igdefense.attacks.objective import evaluate
from igdefense.attacks.threat import Threat
from igdefense.attacks.views import View, as_view
from igdefense.randomness import Streams
from igdefense.types import Images, Labels, Logits


@dataclass(frozen=True, kw_only=True)
class PGD:
    """Steepest ascent from a random start; the last point is returned (arXiv:1706.06083)."""

    version: ClassVar[int] = 1

    threat: Threat
    steps: int = 40
    step: float = 0.25  # in units of eps
    loss: LossName = "ce"

    def __post_init__(self) -> None:
        require_positive(self, "steps")
        require_known(self, "loss", *LOSSES)

    def __call__(
        self, view: View | nn.Module, images: Images, labels: Labels, rng: Generator | Streams
    ) -> Images:
        view, rng = as_view(view), Streams.of(rng, len(images))
        x = self.threat.random(images, rng.child("start"))
        for _ in range(self.steps):
            gradient = evaluate(view, x, labels, LOSSES[self.loss]).gradient
            x = self.threat.ascend(x, gradient, self.step * self.threat.eps)
            x = self.threat.project(x, images)
        return x


@dataclass(frozen=True, kw_only=True)
class FGSM:
    """One steepest step on the cross-entropy (arXiv:1412.6572)."""

    version: ClassVar[int] = 1

    threat: Threat
    step: float = 1.0  # in units of eps
    random_start: bool = False

    def __call__(
        self, view: View | nn.Module, images: Images, labels: Labels, rng: Generator | Streams
    ) -> Images:
        view, rng = as_view(view), Streams.of(rng, len(images))
        x = self.threat.random(images, rng.child("start")) if self.random_start else images
        gradient = evaluate(view, x, labels, LOSSES["ce"]).gradient
        x = self.threat.ascend(x, gradient, self.step * self.threat.eps)
        return self.threat.project(x, images)


@dataclass(frozen=True, kw_only=True)
class GAMA:
    """GAMA-PGD: the margin of the probabilities, at first pushed off the clean ones.

    The step is 2 eps, divided by 10 at 60 % and 85 % of the steps; the squared distance to the
    clean probabilities weighs `weight` and fades to nothing over a quarter of them. It starts at
    random corners of the ball (arXiv:2011.14969).
    """

    version: ClassVar[int] = 1

    threat: Threat
    steps: int = 100
    weight: float = 50.0

    def __post_init__(self) -> None:
        require_positive(self, "steps")

    def __call__(
        self, view: View | nn.Module, images: Images, labels: Labels, rng: Generator | Streams
    ) -> Images:
        view, rng = as_view(view), Streams.of(rng, len(images))
        with torch.no_grad():
            draws = [view(images).softmax(1) for _ in range(view.samples)]
            clean = torch.stack(draws).mean(0)
        noise = rng.child("start").uniform(images.shape[1:], -1.0).to(images)
        x = self.threat.project(self.threat.ascend(images, noise, self.threat.eps), images)
        step, fade = 2 * self.threat.eps, max(self.steps // 4, 1)
        for i in range(self.steps):
            if i in (self.steps * 60 // 100, self.steps * 85 // 100) and i > 0:
                step /= 10
            weight = self.weight * max(0.0, 1 - i / fade)

            def loss(logits: Logits, labels: Labels, weight: float = weight) -> Losses:
                now = logits.softmax(1)
                return cw(now, labels) + weight * (now - clean).square().sum(1)

            x = self.threat.ascend(x, evaluate(view, x, labels, loss).gradient, step)
            x = self.threat.project(x, images)
        return x
