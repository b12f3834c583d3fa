"""Attacks that only ask: squares, rays, and what noise does to an oracle."""

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from documentation.pictures import embedded
from documentation.pictures.canvas import GREY, INK, THIRD, WRONG, panels
from documentation.pictures.plane import LABEL, Watched, Wedge, ball, end, image, regions
from igdefense.attacks import APGD, Linf, RayS, Square, as_view
from igdefense.attacks.losses import cw
from igdefense.randomness import Streams

EPS = 8 / 255


class Kept(nn.Module):
    """Remembers the best candidate after each query of the first image."""

    def __init__(self, model: nn.Module, label: Tensor) -> None:
        super().__init__()
        self.model, self.label = model, label
        self.best: list[tuple[float, Tensor]] = []

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images)
        margin = float(cw(logits[:1], self.label))
        if not self.best or margin > self.best[-1][0]:
            self.best.append((margin, images[0].clone()))
        else:
            self.best.append(self.best[-1])
        return logits


def square() -> Figure:
    """The change after more and more queries."""
    data = embedded.shown(12)
    index = 3  # it stands to the end
    clean, label = data.images[index : index + 1], data.labels[index : index + 1]
    net = Kept(embedded.model(), label)
    Square(threat=Linf(EPS), queries=300)(net, clean, label, rng=Streams([0]))
    figure, axes = panels(5, height=2.1)
    axes[0].imshow(clean[0].permute(1, 2, 0), interpolation="none")
    axes[0].set_title(f"clean: {data.class_names[int(label)]}")
    # The first question is whether the clean image stands.
    for panel, query in zip(axes[1:], (0, 10, 50, 250), strict=True):
        margin, x = net.best[query + 1]
        change = ((x - clean[0]) / (2 * EPS) + 0.5).clamp(0, 1)
        panel.imshow(change.permute(1, 2, 0), interpolation="none")
        panel.set_title(f"{f'query {query}' if query else 'start'}\nmargin {margin:+.2f}")
    for panel in axes:
        panel.axis("off")
    return figure


def rays() -> Figure:
    """The four rays of a world of two pixels, and the questions along them."""
    figure, axes = panels(2, width=5.6)
    for panel, clean, title in (
        (axes[0], image(0.45, 0.46), "a ray that ends inside the ball"),
        (axes[1], image(0.45, 0.3), "no ray is short enough"),
    ):
        net = Watched(Wedge())
        attack = RayS(threat=Linf(0.2), queries=60)
        _, radius, _ = attack.search(as_view(net), clean, LABEL)
        x = attack(Wedge(), clean, LABEL, rng=Streams([0]))
        regions(panel, Wedge(), title)
        ball(panel, clean, 0.2)
        p, q = clean.flatten().tolist()
        for one in (-1, 1):
            for other in (-1, 1):
                panel.plot([p, p + one], [q, q + other], ":", color=GREY, lw=0.8)
        asked = np.array(net.asked)
        panel.plot(asked[:, 0], asked[:, 1], "o", color=INK, ms=2.6)
        if float(radius) <= 0.2:
            end(panel, x, THIRD)
        panel.set(xlim=(0, 1), ylim=(0, 1))
    return figure


def oracle() -> Figure:
    """Bisections along one line of the defense, with one vote and with eleven."""
    data = embedded.shown(12)
    clean, label = data.images[:1], data.labels[:1]
    there = _transferred(clean, label)
    places = np.linspace(0.5, 0.8, 31)
    line = torch.cat([clean + float(t) * (there - clean) for t in places])
    labels = label.expand(len(line))
    wrong = torch.stack([embedded.margins(line, labels, draw) > 0 for draw in range(60)])
    figure, axes = panels(1, width=5.6, height=2.9)
    axes[0].plot(places, wrong.float().mean(0), color=INK, label="share of draws that are wrong")
    axes[0].axhline(0.5, color=GREY, lw=0.8, ls=":")
    for votes, colour, height in ((1, WRONG, -0.12), (11, THIRD, -0.22)):
        ends = [_bisected(clean, there, label, votes, 1000 * n) for n in range(25)]
        axes[0].plot(ends, [height] * len(ends), "|", ms=9, color=colour)
        axes[0].text(0.803, height, f"{votes} vote{'s' * (votes > 1)}", color=colour, va="center")
    axes[0].set_xlabel("from the clean image (0) to a transferred point (1)")
    axes[0].set(xlim=(0.5, 0.8), ylim=(-0.3, 1.05), yticks=[0, 0.5, 1])
    axes[0].legend(loc="upper left")
    return figure


def _transferred(clean: Tensor, label: Tensor) -> Tensor:
    attack = APGD(threat=Linf(EPS), loss="cw", steps=20, best="highest")
    return attack(embedded.model(), clean, label, rng=Streams([0]))


def _bisected(clean: Tensor, there: Tensor, label: Tensor, votes: int, draw: int) -> float:
    low, high = 0.0, 1.0
    for step in range(8):
        middle = (low + high) / 2
        x = clean + middle * (there - clean)
        asked = range(draw + step * votes, draw + (step + 1) * votes)
        wrong = sum(bool(embedded.margins(x, label, number) > 0) for number in asked)
        low, high = (low, middle) if wrong > votes / 2 else (middle, high)
    return high
