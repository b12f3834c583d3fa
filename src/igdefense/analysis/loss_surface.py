"""Loss surface: the loss over a plane through the whole eps-ball around an image."""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from igdefense.attacks.objective import gradient_of
from igdefense.attacks.steady import steady
from igdefense.attacks.threat import Linf
from igdefense.errors import SettingError
from igdefense.files import written_whole
from igdefense.progress import track
from igdefense.randomness import Streams, seed_of
from igdefense.types import Images, Labels

FORMAT = "igdefense-loss-surface-1"
BATCH = 64  # points at a time


@dataclass(frozen=True, eq=False)
class LossSurface:
    """Cross-entropy at x + a g + b g', a and b from -eps to eps.

    g is the sign of the model's own gradient at the clean image and g' an orthogonal vector of
    signs; points that leave the eps-ball or [0, 1] are clipped to them, as an attack's would be.
    """

    eps: float
    steps: Float[Tensor, " points"]
    """The values of a and of b, in pixel units."""
    losses: Float[Tensor, "images points points"]
    """One surface for each image: rows are a, along the gradient, columns are b."""
    draws: int

    @property
    def mean(self) -> Float[Tensor, "points points"]:
        return self.losses.mean(0)

    @property
    def missed(self) -> float:
        """The mean loss that the plane holds above the gradient's own direction (b = 0).

        Near 0 where gradients lead to the worst point, as the paper argues; large where they are
        masked.
        """
        middle = len(self.steps) // 2
        along = self.losses[:, :, middle].amax(1)
        return float((self.losses.amax((1, 2)) - along).mean())

    def table(self) -> str:
        """The loss in the middle, along the gradient and anywhere on the plane."""
        middle = len(self.steps) // 2
        along = self.losses[:, :, middle].amax(1).mean()
        return (
            f"Cross-entropy over the plane, eps = {self.eps * 255:g}/255, means of "
            f"{len(self.losses)} images: clean {self.losses[:, middle, middle].mean():.3f}, "
            f"highest along the gradient {along:.3f}, anywhere {along + self.missed:.3f}"
        )

    def save(self, path: str | Path) -> None:
        """Write every number as JSON."""
        record = {
            "format": FORMAT,
            "eps": self.eps,
            "draws": self.draws,
            "steps": self.steps.tolist(),
            "losses": self.losses.tolist(),
        }
        with written_whole(Path(path)) as part:
            part.write_text(json.dumps(record) + "\n")


def loss_surface(
    model: nn.Module,
    images: Images,
    labels: Labels,
    *,
    eps: float = 8 / 255,
    points: int = 17,
    draws: int = 1,
    seed: int = 0,
    progress: bool | None = None,
) -> LossSurface:
    """The surface of each image; a random defense keeps its `draws` of noise at every point."""
    if points < 3 or points % 2 == 0:
        raise SettingError(f"points = {points}; an odd number, at least 3, has the image inside.")
    if draws < 1:
        raise SettingError(f"draws = {draws}; at least 1 is needed.")
    threat = Linf(eps)
    draws = draws if getattr(model, "random", False) else 1
    steps = torch.linspace(-eps, eps, points)
    steps[points // 2] = 0.0
    surfaces = []
    for i in track(range(len(images)), "loss surface", progress):
        image, label = images[i : i + 1], labels[i : i + 1]
        keys = [seed_of(seed, "loss surface", i, draw) for draw in range(draws)]
        g, across = directions(model, image, label, keys, Streams([seed_of(seed, "across", i)]))
        along, sideways = torch.meshgrid(steps, steps, indexing="ij")
        losses = []
        for chosen in torch.arange(points * points).split(BATCH):
            a, b = (
                grid.flatten()[chosen].view(-1, 1, 1, 1).to(image) for grid in (along, sideways)
            )
            x = image + a * g + b * across
            x = threat.project(x, image.expand_as(x))
            losses.append(_losses(model, x, label.expand(len(x)), keys))
        surfaces.append(torch.cat(losses).view(points, points))
    return LossSurface(eps, steps, torch.stack(surfaces), draws)


def directions(
    model: nn.Module, image: Images, label: Labels, keys: list[int], rng: Streams
) -> tuple[Images, Images]:
    """The sign of the gradient (+1 where it is 0), and a vector of signs orthogonal to it."""
    x = image.clone().requires_grad_()
    losses = torch.stack([_loss(model, x, label, key) for key in keys]).mean(0)
    g = torch.where(gradient_of(losses, x) < 0, -1.0, 1.0).to(image)
    order = rng.uniform(image.shape[1:]).flatten().argsort()
    signs = torch.ones_like(order, dtype=image.dtype)
    half = len(order) // 2
    signs[order[:half]] = -1.0
    signs[order[2 * half :]] = 0.0  # the odd one out, if there is one
    return g, g * signs.view(image.shape).to(image)


@torch.no_grad()
def _losses(model: nn.Module, x: Images, labels: Labels, keys: list[int]) -> Tensor:
    return torch.stack([_loss(model, x, labels, key) for key in keys]).mean(0)


def _loss(model: nn.Module, x: Images, labels: Labels, key: int) -> Tensor:
    drawn = [key] * len(x) if getattr(model, "random", False) else None
    return F.cross_entropy(steady(model, x, drawn), labels, reduction="none")
