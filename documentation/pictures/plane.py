"""A world of two pixels, where everything an attack does can be seen."""

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor, nn

from documentation.pictures.canvas import GREY, INK, LIGHT, RIGHT, THIRD, WRONG

COLOURS = (RIGHT, WRONG, THIRD)
LABEL = torch.tensor([0])
Point = tuple[float, ...]


class Plane(nn.Module):
    """Three classes on the square of two pixels: 1 to the right and on an island, 2 above."""

    def forward(self, images: Tensor) -> Tensor:
        p, q = images.flatten(1).unbind(1)
        right = 9 * (p - 0.74 + 0.05 * torch.sin(9 * q))
        island = 4 * torch.exp(-((p - 0.49) ** 2 + (q - 0.36) ** 2) / 0.02) - 2.4
        above = 7 * (q - 0.75 + 0.06 * torch.sin(8 * p + 1))
        first = torch.stack([right, island]).logsumexp(0)
        return torch.stack([torch.zeros_like(p), first, above], dim=1)


class Wedge(nn.Module):
    """The likeliest wrong class is out of reach, the other is not."""

    def forward(self, images: Tensor) -> Tensor:
        p, q = images.flatten(1).unbind(1)
        return torch.stack([torch.zeros_like(p), p - 0.8 - 0.1 * q, 6 * (q - 0.7 + 0.1 * p)], dim=1)


class Watched(nn.Module):
    """A model that remembers every point it was asked about.

    Attacks run towards several targets side by side, each in a row of the batch of its own.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.calls: list[list[Point]] = []

    def forward(self, images: Tensor, *more: object) -> Tensor:
        rows = [tuple(row) for row in images.detach().flatten(1).tolist()]
        self.calls.append(list(dict.fromkeys(rows)))  # a batch is filled up with copies
        return self.model(images, *more)

    @property
    def asked(self) -> list[Point]:
        """All points, in order."""
        return [point for call in self.calls for point in call]

    def run(self, number: int) -> list[Point]:
        """The points of one of the runs side by side, once there is more than one."""
        return [call[number] for call in self.calls if len(call) > 1]


def image(p: float, q: float) -> Tensor:
    """Two pixels as an image."""
    return torch.tensor([[[[p, q]]]])


def regions(axes: Axes, model: nn.Module, title: str = "") -> None:
    """Colour each point by the class that the model gives it."""
    steps = np.linspace(0, 1, 50)
    p, q = np.meshgrid(steps, steps)
    points = torch.from_numpy(np.stack([p, q], axis=-1)).float().reshape(-1, 1, 1, 2)
    with torch.no_grad():
        logits = model(points).reshape(50, 50, -1).numpy()
    for label in range(logits.shape[2]):
        others = np.delete(logits, label, axis=2).max(2)
        lead = logits[:, :, label] - others
        axes.contourf(p, q, lead, levels=[0, 1e9], colors=[LIGHT[COLOURS[label]]])
        if label != 1:  # its borders are those of the other two
            axes.contour(p, q, lead, levels=[0], colors=GREY, linewidths=0.8)
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 1], yticks=[0, 1], aspect="equal", title=title)
    axes.set_xlabel("pixel 1", labelpad=-8)
    axes.set_ylabel("pixel 2", labelpad=-8)


def ball(axes: Axes, clean: Tensor, eps: float) -> None:
    """The L-inf ball around an image, and the image."""
    p, q = clean.flatten().tolist()
    axes.add_patch(Rectangle((p - eps, q - eps), 2 * eps, 2 * eps, fill=False, ec=INK, lw=1))
    axes.plot(p, q, "o", color=RIGHT, ms=6, zorder=5)


def trail(axes: Axes, points: Sequence[Sequence[float]], colour: str = INK) -> None:
    """The points an attack asked about, in order."""
    p, q = zip(*[point[:2] for point in points], strict=True)
    axes.plot(p, q, "-", color=colour, lw=0.9, alpha=0.7)
    axes.plot(p, q, "o", color=colour, ms=2.8)


def end(axes: Axes, x: Tensor, colour: str = WRONG, text: str = "") -> None:
    """The point an attack hands back."""
    p, q = x.flatten().tolist()
    axes.plot(p, q, "X", color=colour, ms=8, mec="white", mew=0.8, zorder=6)
    if text:
        axes.annotate(text, (p, q), xytext=(6, 5), textcoords="offset points", fontsize=8)
