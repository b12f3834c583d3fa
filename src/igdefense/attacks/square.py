"""Square, from pyautoattack, on a view."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from pyautoattack.square import SquareAttack
from torch import Generator, Tensor, nn

from igdefense.attacks.attack import require_positive
from igdefense.attacks.losses import cw
from igdefense.attacks.objective import mean_logits, misclassified
from igdefense.attacks.threat import Threat
from igdefense.attacks.views import View, as_view
from igdefense.randomness import Streams, generator
from igdefense.types import Images, Labels


@dataclass(frozen=True, kw_only=True)
class Square:
    """Random search over squares, with logits but no gradients (arXiv:1912.00049).

    Each image starts from its own stream. The squares tried next are the same for every image and
    seed and change with the restart only, so an image's luck does not depend on its neighbours.
    On an EoT view the margin is averaged over the draws. Restarts are for unbroken images only.
    """

    version: ClassVar[int] = 1

    threat: Threat
    queries: int = 5000
    restarts: int = 1
    p_init: float = 0.8  # the share of the pixels in the first squares

    def __post_init__(self) -> None:
        require_positive(self, "queries", "restarts")

    @torch.no_grad()
    def __call__(
        self, view: View | nn.Module, images: Images, labels: Labels, rng: Generator | Streams
    ) -> Images:
        view, rng = as_view(view), Streams.of(rng, len(images))
        x, standing = images.clone(), ~misclassified(view, images, labels)
        for restart in range(self.restarts):
            left = standing.nonzero().flatten()
            if not len(left):
                break
            clean = images[left].contiguous()  # the parent views it flat
            square = SquareOnView(
                view[left], labels[left], rng[left].child("start", restart), restart
            )
            tried = square.run(clean, self.threat, self.queries, self.p_init)
            fell = misclassified(view[left], tried, labels[left])
            x[left[fell]], standing[left[fell]] = tried[fell], False
        return x


class SquareOnView(SquareAttack):  # type: ignore[misc]
    """One run, given the images' positions as their labels, so it can say which it asks about."""

    def __init__(self, view: View, labels: Labels, rng: Streams, restart: int) -> None:
        super().__init__(None, resc_schedule=False)
        self.view, self.labels, self.rng = view, labels, rng
        self.shared = generator("square", restart)
        self.starting, self.draws = True, 0

    def run(self, clean: Images, threat: Threat, queries: int, p_init: float) -> Images:
        """The points found for the images of the view."""
        self.norm, self.eps = type(threat).__name__, threat.eps
        self.n_queries, self.p_init = queries, p_init
        self.init_hyperparam(clean)
        _, x = self.attack_single_run(clean, torch.arange(len(clean), device=clean.device))
        return threat.project(x, clean)

    def margin_and_loss(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        self.starting = False
        margin = -cw(mean_logits(self.view[y], x), self.labels[y])
        return margin, margin

    def random_choice(self, shape: Sequence[int]) -> Tensor:
        """Random signs: each image its own in the starting point, later one set for all."""
        if len(shape) == 3 or not self.starting:
            numbers = torch.rand(list(shape)[-3:], generator=self.shared).expand(*shape)
        else:
            self.draws += 1
            numbers = self.rng.child(self.draws).uniform(shape[1:])
        return (2 * numbers - 1).sign().to(self.device)

    def random_int(self, low: int = 0, high: int = 1, shape: Sequence[int] = (1,)) -> Tensor:
        numbers = torch.rand(list(shape), generator=self.shared)
        return (low + (high - low) * numbers).long().to(self.device)

    def eta(self, s: int) -> Tensor:
        """The parent turns the window by a coin from the global generator; give it ours."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int(self.random_int(0, 2**31)))
            return super().eta(s)
