"""APGD and its targeted form: runs of `climb` with restarts, and which point they return."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn

from igdefense.attacks.attack import require_known, require_positive
from igdefense.attacks.best import BETTER, Best, Found, broken_then_higher, nothing_yet
from igdefense.attacks.climb import FRESH, WARM, climb
from igdefense.attacks.losses import LOSSES, TARGETED_LOSSES, Loss, LossName, TargetedLossName
from igdefense.attacks.objective import likeliest_targets, misclassified
from igdefense.attacks.side_by_side import joined, runs_at_once
from igdefense.attacks.threat import Threat
from igdefense.attacks.views import View, as_view
from igdefense.randomness import Streams
from igdefense.types import Images, Labels

Run = tuple[tuple[int, ...], Callable[[Tensor], Loss]]  # its name; its loss for some of the images


@dataclass(frozen=True, kw_only=True)
class APGD:
    """APGD on one loss, with random restarts (arXiv:2003.01690).

    `best` says which point is returned. "adversarial": the last misclassified one, or the clean
    image, as in AutoAttack; restarts are for unbroken images only. "highest": the point of highest
    loss, always. "strict": the misclassified point of highest loss, or else the point of highest
    loss. On an EoT view a point is misclassified if more than half of its draws are.

    With `start` the first run begins there instead of at random, with shorter steps; the start is
    itself one of the points to choose from.
    """

    version: ClassVar[int] = 1

    threat: Threat
    loss: LossName = "ce"
    steps: int = 100
    restarts: int = 1
    best: Best = "adversarial"

    def __post_init__(self) -> None:
        require_positive(self, "steps", "restarts")
        require_known(self, "loss", *LOSSES)
        require_known(self, "best", *BETTER)

    def __call__(
        self,
        view: View | nn.Module,
        images: Images,
        labels: Labels,
        rng: Generator | Streams,
        start: Images | None = None,
    ) -> Images:
        runs: list[Run] = [((i,), lambda _: LOSSES[self.loss]) for i in range(self.restarts)]
        view, rng = as_view(view), Streams.of(rng, len(images))
        return _search(self, view, images, labels, rng, runs=runs, given=start).x


@dataclass(frozen=True, kw_only=True)
class TargetedAPGD:
    """APGD towards one wrong class after another, those of highest clean logit first.

    Later targets and restarts are for unbroken images only; `best` is as in `APGD`. With `start`
    the first run towards each target begins there.
    """

    version: ClassVar[int] = 1

    threat: Threat
    loss: TargetedLossName = "dlr"
    steps: int = 100
    restarts: int = 1
    targets: int | None = None  # None is min(9, classes - 1)
    best: Best = "adversarial"

    def __post_init__(self) -> None:
        require_positive(self, "steps", "restarts", "targets")
        require_known(self, "loss", *TARGETED_LOSSES)
        require_known(self, "best", *BETTER)

    def __call__(
        self,
        view: View | nn.Module,
        images: Images,
        labels: Labels,
        rng: Generator | Streams,
        start: Images | None = None,
    ) -> Images:
        view, rng = as_view(view), Streams.of(rng, len(images))
        targets = likeliest_targets(view, images, labels, self.targets)

        def towards(rank: int, left: Tensor) -> Loss:
            goal = targets[left, rank]
            return lambda logits, labels: TARGETED_LOSSES[self.loss](logits, labels, goal)

        ranks, restarts = range(targets.shape[1]), range(self.restarts)
        runs: list[Run] = [((t, i), partial(towards, t)) for t in ranks for i in restarts]
        return _search(self, view, images, labels, rng, runs=runs, given=start).x


def _search(
    attack: APGD | TargetedAPGD,
    view: View,
    images: Images,
    labels: Labels,
    rng: Streams,
    *,
    runs: Iterable[Run],
    given: Images | None = None,
) -> Found:
    breaking = attack.best == "adversarial"
    found = nothing_yet(images, misclassified(view, images, labels) if breaking else None)
    better = between = BETTER[attack.best]
    if isinstance(attack, TargetedAPGD) and not breaking:
        between = broken_then_higher  # the losses of two targets are not on one scale
    everyone = isinstance(attack, APGD) and not breaking
    waiting = list(runs)
    while waiting:
        left = (~found.broken | everyone).nonzero().flatten()
        if not len(left):
            break
        count = 1 if given is not None else runs_at_once(view, len(left), len(waiting))
        some, waiting = waiting[:count], waiting[count:]
        warm = given is not None and some[0][0][-1] == 0
        clean, rows = images[left], left.repeat(count)
        if given is not None and warm:
            start = attack.threat.project(given[left], clean)
        else:
            streams = [rng[left].child("start", *name) for name, _ in some]
            start = torch.cat([attack.threat.random(clean, stream) for stream in streams])
        tried = climb(
            view[rows],
            images[rows],
            labels[rows],
            joined([loss(left) for _, loss in some]),
            start,
            threat=attack.threat,
            steps=attack.steps,
            better=better,
            stride=WARM if warm else FRESH,
        )
        for part in torch.arange(len(rows), device=left.device).chunk(count):
            still = ~found.broken[left] | everyone  # an earlier run's point stays
            kept = found[left[still]].keep(tried[part[still]], between)
            found = found.put(left[still], kept)
    return found
