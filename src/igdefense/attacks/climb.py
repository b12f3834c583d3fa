"""One run of APGD: gradient ascent that halves its step when it stops climbing."""

from collections.abc import Iterator

import torch

from igdefense.attacks.best import Better, Found, higher
from igdefense.attacks.losses import Loss
from igdefense.attacks.objective import evaluate
from igdefense.attacks.threat import Threat
from igdefense.attacks.views import View
from igdefense.types import Images, Labels

MOMENTUM = 0.75
FRESH, WARM = 2.0, 0.5  # strides from a random start, and from one that is worth staying near
RHO = 0.75  # the share of steps that must raise the loss for the step size to stay


def checkpoints(steps: int) -> Iterator[int]:
    """The steps after which the step size is checked: first 0.22 n, last 0.06 n apart."""
    gap, least, less = (max(int(share * steps), 1) for share in (0.22, 0.06, 0.03))
    step = gap
    while step <= steps:
        yield step
        gap = max(gap - less, least)
        step += gap


def climb(
    view: View,
    images: Images,
    labels: Labels,
    loss: Loss,
    start: Images,
    *,
    threat: Threat,
    steps: int,
    better: Better,
    stride: float = FRESH,
) -> Found:
    """The best of the steps + 1 points visited, each evaluated once (arXiv:2003.01690).

    `stride` is the first step in units of eps.
    """
    x = before = start
    here = evaluate(view, x, labels, loss)
    found = top = Found(x, here.loss, here.wrong)
    gradient = top_gradient = here.gradient
    step = torch.full_like(images[:, :1, :1, :1], stride * threat.eps)
    rises, checked, halved = torch.zeros_like(top.loss), top.loss, torch.ones_like(top.broken)
    checks, last_check = set(checkpoints(steps)), 0
    for i in range(1, steps + 1):
        inertia, before, below = x - before, x, here.loss
        a = MOMENTUM if i > 1 else 1.0
        ahead = threat.project(threat.ascend(x, gradient, step), images)
        x = threat.project(x + (ahead - x) * a + inertia * (1 - a), images)
        here = evaluate(view, x, labels, loss)
        now = Found(x, here.loss, here.wrong)
        gradient = here.gradient
        top_gradient = torch.where(_wide(higher(top, now)), gradient, top_gradient)
        found, top = found.keep(now, better), top.keep(now, higher)
        rises += here.loss > below
        if i in checks:
            stalled = rises <= RHO * (i - last_check)
            halved = stalled | (~halved & (checked >= top.loss))
            rises, checked, last_check = torch.zeros_like(rises), top.loss, i
            step = torch.where(_wide(halved), step / 2, step)
            x = torch.where(_wide(halved), top.x, x)
            gradient = torch.where(_wide(halved), top_gradient, gradient)
    return found


def _wide(mask: torch.Tensor) -> torch.Tensor:
    return mask.view(-1, 1, 1, 1)
