"""Attacks that follow the gradient: one step, many, shrinking ones, one target at a time."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from documentation.pictures.canvas import GREY, THIRD, WRONG, panels
from documentation.pictures.plane import (
    LABEL,
    Plane,
    Watched,
    Wedge,
    ball,
    end,
    image,
    regions,
    trail,
)
from igdefense.attacks import APGD, FABT, FGSM, PGD, Attack, Linf, TargetedAPGD
from igdefense.randomness import Streams

EPS = 0.2
SEED = 8  # of the random starts


def gradient() -> Figure:
    """FGSM, PGD and APGD from the same image."""
    figure, axes = panels(3)
    clean, threat = image(0.42, 0.45), Linf(EPS)
    attacks: dict[str, Attack] = {
        "FGSM: one step of ε": FGSM(threat=threat),
        "PGD: steps of ε/4": PGD(threat=threat, steps=12),
        "APGD: first 2ε, then halved": APGD(threat=threat, steps=30, best="highest"),
    }
    for panel, (title, attack) in zip(axes, attacks.items(), strict=True):
        net = Watched(Plane())
        x = attack(net, clean, LABEL, rng=Streams([SEED]))
        _scene(panel, Plane(), title, clean)
        trail(panel, [*net.asked, x.flatten().tolist()])
        end(panel, x, GREY if Plane()(x).argmax() == 0 else WRONG)
    return figure


def targets() -> Figure:
    """The bare margin, one target after the other, and FAB's way to the boundary."""
    figure, axes = panels(3)
    clean, threat, net = image(0.45, 0.46), Linf(EPS), Watched(Wedge())
    untargeted = APGD(threat=threat, loss="cw", steps=10, best="highest")
    x = untargeted(net, clean, LABEL, rng=Streams([SEED]))
    _scene(axes[0], Wedge(), "untargeted: the largest logit", clean)
    trail(axes[0], _climbed(net, 10), WRONG)
    end(axes[0], x, GREY)

    _scene(axes[1], Wedge(), "targeted: class after class", clean)
    net = Watched(Wedge())
    attack = TargetedAPGD(threat=threat, steps=10, targets=2, best="highest")
    x = attack(net, clean, LABEL, rng=Streams([SEED]))
    for number, colour in enumerate((WRONG, THIRD)):
        trail(axes[1], net.run(number), colour)
    end(axes[1], x, THIRD)

    net = Watched(Wedge())
    x = FABT(threat=threat, steps=10, targets=2)(net, clean, LABEL, rng=Streams([SEED]))
    _scene(axes[2], Wedge(), "FAB: the closest point of each", clean)
    for number, colour in enumerate((WRONG, THIRD)):
        trail(axes[2], [tuple(clean.flatten().tolist()), *net.run(number)], colour)
    end(axes[2], x, THIRD)
    return figure


def _scene(panel: Axes, net: nn.Module, title: str, clean: Tensor) -> None:
    regions(panel, net, title)
    ball(panel, clean, EPS)


def _climbed(net: Watched, steps: int) -> list[tuple[float, ...]]:
    """The start and the steps of the last run."""
    return net.asked[-steps - 1 :]
