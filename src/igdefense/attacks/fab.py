"""FAB-T, from pyautoattack, on a view."""

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import ClassVar

import torch
import torch.nn.functional as F
from pyautoattack.fab_pt import FABAttack_PT
from torch import Generator, Tensor, nn

from igdefense.attacks.attack import require_positive
from igdefense.attacks.losses import targeted_cw
from igdefense.attacks.objective import evaluate, likeliest_targets, mean_logits, misclassified
from igdefense.attacks.side_by_side import runs_at_once
from igdefense.attacks.threat import Threat
from igdefense.attacks.views import View, as_view
from igdefense.randomness import Streams
from igdefense.types import Images, Labels


@dataclass(frozen=True, kw_only=True)
class FABT:
    """The closest point of one wrong class after another, if inside the budget (arXiv:1907.02044).

    Later targets and restarts are for unbroken images only; the first start is the clean image.
    """

    version: ClassVar[int] = 1

    threat: Threat
    steps: int = 100
    restarts: int = 1
    targets: int | None = None  # None is min(9, classes - 1)

    def __post_init__(self) -> None:
        require_positive(self, "steps", "restarts", "targets")

    @torch.no_grad()
    def __call__(
        self, view: View | nn.Module, images: Images, labels: Labels, rng: Generator | Streams
    ) -> Images:
        view, rng = as_view(view), Streams.of(rng, len(images))
        x, standing = images.clone(), ~misclassified(view, images, labels)
        targets = likeliest_targets(view, images, labels, self.targets)
        waiting = list(product(range(targets.shape[1]), range(self.restarts)))
        while waiting:
            left = standing.nonzero().flatten()
            if not len(left):
                break
            count = runs_at_once(view, len(left), len(waiting))
            some, waiting = waiting[:count], waiting[count:]
            clean, rows = images[left], left.repeat(count)
            start = torch.cat([self._start(clean, rng[left], *name) for name in some])
            goal = torch.cat([targets[left, rank] for rank, _ in some])
            tried = self._run(view[rows], images[rows], labels[rows], goal, start)
            fell = misclassified(view[rows], tried, labels[rows])
            fell &= self.threat.size(tried, images[rows]) <= self.threat.eps
            for points, won in zip(tried.chunk(count), fell.chunk(count), strict=True):
                new = won & standing[left]  # an earlier run's point stays
                x[left[new]], standing[left[new]] = points[new], False
        return x

    def _start(self, clean: Images, rng: Streams, rank: int, restart: int) -> Images:
        """The clean image; for a restart, half way to a random point of the ball."""
        if restart == 0:
            return clean
        return (clean + self.threat.random(clean, rng.child("start", rank, restart))) / 2

    def _run(
        self, view: View, images: Images, labels: Labels, targets: Labels, start: Images
    ) -> Images:
        fab = _OnView(view, labels, targets, start)
        fab.norm, fab.n_iter = type(self.threat).__name__, self.steps
        return fab.attack_single_run(images, labels, is_targeted=True).to(images)


class _OnView(FABAttack_PT):  # type: ignore[misc]
    """One run on images that are all to be attacked, so every question is about all of them.

    The parent's ways to the model are replaced: its random start draws from the global generator,
    and its backward pass fills the gradients of the model's parameters.
    """

    def __init__(self, view: View, labels: Labels, targets: Labels, start: Images) -> None:
        super().__init__(None)
        self.view, self.labels, self.targets, self.start = view, labels, targets, start
        self.target_class = 1  # the highest of `_predict_fn`
        self.begun = False

    def _predict_fn(self, x: Tensor) -> Tensor:
        """Asked for the clean logits, from which the parent takes the target."""
        classes = int(self.targets.max()) + 1
        return F.one_hot(self.targets, classes).to(x)

    def _get_predicted_label(self, x: Tensor) -> Tensor:
        if not self.begun:
            return self.labels  # which images to attack: all
        return mean_logits(self.view, x.to(self.start)).argmax(1)

    def get_diff_logits_grads_batch_targeted(
        self, imgs: Tensor, la: Tensor, la_target: Tensor
    ) -> tuple[Tensor, Tensor]:
        if not self.begun:
            imgs.copy_(self.start)  # the parent goes on from what it finds here
            self.begun = True
        loss = partial(targeted_cw, targets=la_target)
        here = evaluate(self.view, imgs.to(self.start), la, loss)
        return here.loss.unsqueeze(1).to(imgs), here.gradient.unsqueeze(1).to(imgs)
