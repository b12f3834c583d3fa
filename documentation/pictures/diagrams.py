"""Boxes and arrows: the defense, what an adversary sees, AutoAttack."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from documentation.pictures.canvas import GREY, INK, LIGHT, RIGHT, THIRD, WRONG, arrow, box, panels
from documentation.pictures.canvas import sheet as blank


def defense() -> Figure:
    """IG-Defense: a noisy guess, a mask, a second pass on the clean image."""
    figure, (axes,) = panels(1, height=2.9)
    blank(axes, 10, 4)
    box(axes, (0.8, 2), (1.1, 0.8), "image x", LIGHT[RIGHT])
    box(axes, (3.1, 3.2), (1.7, 0.8), "A, h\non x + v")
    box(axes, (5.6, 3.2), (1.7, 0.8), "guess ŷ\nsoftmax(z / τ)", LIGHT[WRONG])
    box(axes, (8.5, 3.2), (2.0, 0.8), "masks m: top k\nneurons per class", LIGHT[THIRD])
    box(axes, (5.6, 2.0), (1.7, 0.6), "m ŷ", LIGHT[THIRD])
    box(axes, (3.1, 0.8), (1.7, 0.8), "A(x)\nat the layer")
    box(axes, (5.6, 0.8), (1.7, 0.8), "A(x) times\nm ŷ, per neuron", LIGHT[THIRD])
    box(axes, (7.8, 0.8), (1.2, 0.8), "h")
    arrow(axes, (1.35, 2.2), (2.25, 3.1))
    axes.text(0.95, 2.9, "+ noise v", fontsize=8)
    arrow(axes, (1.35, 1.8), (2.25, 0.9))
    arrow(axes, (3.95, 3.2), (4.75, 3.2), "z")
    arrow(axes, (8.5, 2.8), (6.5, 2.05))
    arrow(axes, (5.6, 2.8), (5.6, 2.3))
    arrow(axes, (5.6, 1.7), (5.6, 1.2))
    axes.text(5.75, 1.45, "the neurons of the guessed class", va="center", fontsize=8)
    arrow(axes, (3.95, 0.8), (4.75, 0.8))
    arrow(axes, (6.45, 0.8), (7.2, 0.8))
    arrow(axes, (8.4, 0.8), (9.0, 0.8))
    axes.text(9.05, 0.8, "logits", va="center", fontsize=8.5)
    axes.text(0.25, 3.75, "first pass", color=GREY, fontsize=8.5)
    axes.text(0.25, 0.15, "second pass", color=GREY, fontsize=8.5)
    return figure


def views() -> Figure:
    """What each view asks, and what its gradient goes through."""
    figure, (axes,) = panels(1, height=4.8)
    blank(axes, 10, 6.6)
    axes.set_ylim(-0.1, 6.6)
    rows = (
        ("Direct", "the model itself", "f", False),
        ("Keyed", "a draw of noise for each image and query", "f + key", False),
        ("EoT", "mean over m draws of loss and gradient", "f + m keys", False),
        ("transfer", "the base model, never the defense", "base", False),
        ("surrogate", "a model built from the defense", "relative", False),
        ("around (BPDA)", "backward, the inner loop is the identity", "loop, f", True),
    )
    for number, (name, what, inside, around) in enumerate(rows):
        _row(axes, 6.1 - number * 1.02, name, what, inside, around)
    axes.plot([7.55, 7.55], [0.6, 6.5], color=GREY, lw=0.8)
    box(
        axes,
        (8.85, 3.6),
        (1.9, 1.5),
        "deployed defense\non draws that\nno attack saw",
        LIGHT[THIRD],
    )
    axes.text(8.85, 2.4, "the judge, whatever\nthe attack looked at", ha="center", fontsize=8)
    axes.text(2.6, -0.02, "solid: what the attack asks", fontsize=8, color=INK)
    axes.text(5.4, -0.02, "dashed: its gradient", fontsize=8, color=WRONG)
    return figure


def _row(axes: Axes, y: float, name: str, what: str, inside: str, around: bool) -> None:
    axes.text(0.1, y + 0.08, name, fontsize=9, fontweight="bold", va="center")
    axes.text(0.1, y - 0.26, what, fontsize=7.5, va="center", color=INK)
    box(axes, (4.3, y), (0.5, 0.46), "x", LIGHT[RIGHT])
    box(axes, (5.75, y), (1.2, 0.46), inside)
    arrow(axes, (4.55, y + 0.1), (5.15, y + 0.1))
    arrow(axes, (6.35, y + 0.1), (6.85, y + 0.1))
    axes.text(6.9, y + 0.08, "loss", fontsize=8, va="center")
    arrow(axes, (6.85, y - 0.1), (6.35, y - 0.1), colour=WRONG, dashed=True)
    if around:
        arrow(axes, (6.35, y - 0.16), (4.55, y - 0.16), colour=WRONG, dashed=True, bend=-0.28)
        axes.text(
            5.45, y - 0.62, "gradient at the end point", fontsize=7.5, ha="center", color=WRONG
        )
    else:
        arrow(axes, (5.15, y - 0.1), (4.55, y - 0.1), colour=WRONG, dashed=True)


def auto_attack() -> Figure:
    """AutoAttack: each stage sees only what is still standing."""
    figure, (axes,) = panels(1, height=1.9)
    blank(axes, 10, 2.4)
    stages = ("APGD\ncross-entropy", "targeted\nAPGD, DLR", "FAB\ntargeted", "Square\nno gradient")
    for number, stage in enumerate(stages):
        x = 1.9 + 2.1 * number
        box(axes, (x, 1.6), (1.5, 0.9), stage)
        arrow(axes, (x - 1.15 + 0.2 * (number == 0), 1.6), (x - 0.75, 1.6))
        arrow(axes, (x, 1.15), (x, 0.55), colour=WRONG)
        axes.text(x, 0.35, "misclassified: kept", ha="center", fontsize=7.5, color=WRONG)
        if number < 3:
            axes.plot([x + 0.75, x + 0.95], [1.6, 1.6], color=INK, lw=1.1)
    axes.text(0.05, 1.6, "right when\nclean", fontsize=8, va="center")
    arrow(axes, (8.95, 1.6), (9.25, 1.6))
    axes.text(9.3, 1.6, "robust", fontsize=8, va="center", color=RIGHT)
    axes.text(3.15, 2.25, "only those still standing go on", fontsize=7.5, color=GREY)
    return figure
