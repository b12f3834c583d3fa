"""Attacks made elsewhere: why noise saves points near the boundary and not those deep behind it."""

from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from torch import Tensor, nn

from documentation.pictures.canvas import INK, RIGHT, THIRD, WRONG, panels
from documentation.pictures.plane import LABEL, Plane, ball, end, image, regions
from igdefense.attacks import APGD, EoT, Keyed, Linf
from igdefense.attacks.losses import cross_entropy, cw, rescaled_cross_entropy
from igdefense.attacks.objective import gradient_of
from igdefense.defenses.smoothing import Smoothed
from igdefense.models.toys import Noisy
from igdefense.randomness import Streams

SIGMA, EPS = 0.06, 0.2


def noise() -> Figure:
    """Where three transfers end, and what noise makes of it."""
    figure, axes = panels(3)
    clean, threat = image(0.42, 0.45), Linf(EPS)
    nearest = _stopped(clean, threat)
    deepest = APGD(threat=threat, loss="cw", steps=40, best="highest")
    noisy = Smoothed(Plane(), sigma=SIGMA, samples=200, noise="frozen").eval()
    ends = {
        "stops at the first wrong point": nearest,
        "A1: the noisy base model": deepest(noisy, clean, LABEL, rng=Streams([8])),
        "A2: as deep as possible": deepest(Plane(), clean, LABEL, rng=Streams([8])),
    }
    for panel, (title, x) in zip(axes, ends.items(), strict=True):
        regions(panel, Plane(), title)
        ball(panel, clean, EPS)
        p, q = x.flatten().tolist()
        panel.add_patch(Circle((p, q), 2 * SIGMA, fill=False, ec=INK, ls=":", lw=1))
        copies = x + SIGMA * torch.randn(400, 1, 1, 2, generator=torch.Generator().manual_seed(0))
        wrong = Plane()(copies).argmax(1) != 0
        for chosen, colour in ((wrong[:100], WRONG), (~wrong[:100], RIGHT)):
            flat = copies[:100][chosen].flatten(1)
            panel.plot(flat[:, 0], flat[:, 1], ".", ms=2.5, color=colour, alpha=0.6)
        end(panel, x)
        share = f"{100 * float(wrong.float().mean()):.0f} % of noisy copies are wrong"
        panel.text(0.5, 0.03, share, ha="center", fontsize=8, transform=panel.transAxes)
    return figure


def _stopped(clean: Tensor, threat: Linf) -> Tensor:
    """The first wrong point of small steps, as of an attack that stops when it succeeds."""
    x = clean
    for _ in range(200):
        x = x.detach().requires_grad_()
        loss = cw(Plane()(x), LABEL)
        if loss.item() > 0:
            break
        x = threat.project(threat.ascend(x, gradient_of(loss, x), 0.005), clean)
    return x.detach()


def eot() -> Figure:
    """Gradients of single draws, and their mean."""
    figure, axes = panels(2, width=5.6)
    net: nn.Module = Noisy(Plane(), 2 * SIGMA)
    for panel, samples in zip(axes, (1, 20), strict=True):
        regions(panel, Plane(), f"{samples} draw{'s' * (samples > 1)} for each arrow")
        for number, (p, q) in enumerate(np.mgrid[0.2:0.6:3j, 0.2:0.6:3j].reshape(2, -1).T):
            views = [EoT(Keyed(net, Streams([100 * number + i])), samples) for i in range(6)]
            slopes = torch.stack([_slope(v, image(float(p), float(q)), samples) for v in views])
            slopes = slopes / slopes.norm(dim=1, keepdim=True)
            look: Any = {"angles": "xy", "scale_units": "xy", "scale": 9, "width": 0.006}
            panel.quiver([p] * 6, [q] * 6, *slopes.T, color=INK, **look)
            panel.plot(p, q, "o", color=RIGHT, ms=3.5)
    return figure


def _slope(view: EoT, point: Tensor, samples: int) -> Tensor:
    x = point.requires_grad_()
    total = sum((cw(view(x), LABEL) for _ in range(samples)), torch.zeros(1))
    return gradient_of(total, x).flatten()


def temperature() -> Figure:
    """What reaches the pixels through the guess, and through a cross-entropy."""
    figure, axes = panels(2, height=2.9)
    leads = torch.linspace(0.01, 3, 300, dtype=torch.float32)
    for tau, colour in ((0.01, WRONG), (0.1, THIRD), (1.0, RIGHT)):
        guess = torch.stack([leads / tau, torch.zeros_like(leads)], dim=1).softmax(1)
        slope = guess[:, 0] * guess[:, 1] / tau  # d softmax / d lead
        axes[0].semilogy(leads, slope.clamp(min=1e-46), color=colour, label=f"τ = {tau:g}")
    axes[0].set(ylim=(1e-30, 1e2), xlim=(0, 3), title="slope of the pseudo-label")
    axes[0].set_xlabel("lead of the first class over the second")
    axes[0].legend(loc="lower right")
    leads = torch.linspace(0.1, 30, 300, dtype=torch.float32)
    logits = torch.stack([leads, torch.zeros_like(leads)], dim=1).requires_grad_()
    losses = (
        (cross_entropy, "cross-entropy", WRONG),
        (rescaled_cross_entropy, "rescaled (A8)", RIGHT),
    )
    for loss, name, colour in losses:
        found = loss(logits, torch.zeros(len(leads), dtype=torch.long))
        (slope,) = torch.autograd.grad(found.sum(), logits)
        axes[1].semilogy(leads, -slope[:, 0].clamp(max=-1e-46), color=colour, label=name)
    axes[1].set(ylim=(1e-9, 5), xlim=(0, 30), title="slope in the right logit, single precision")
    axes[1].set_xlabel("lead of the right class")
    axes[1].legend(loc="lower left")
    return figure
