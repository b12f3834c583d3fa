"""Train a SODEF head on the frozen features of any base model, in three phases."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn, optim
from torch.nn.utils import parametrizations, parametrize

from igdefense import __version__
from igdefense.data.data import Data
from igdefense.defenses.rivals.head import WIDTH, Head
from igdefense.defenses.rivals.inner import check_frozen
from igdefense.defenses.rivals.ode import check_solver, solve
from igdefense.defenses.rivals.sodef import features_of
from igdefense.errors import DataError, SettingError
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.progress import track
from igdefense.randomness import generator
from igdefense.split import split
from igdefense.training.loop import DivergedError
from igdefense.training.stability import Stability

log = logging.getLogger(__name__)
Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Phases:
    """The three phases: projection, ODE, last layer. Optimisers and losses are as published."""

    epochs: tuple[int, int, int] = (5, 20, 10)
    held_out: float = 0.1
    """Share of the training images that chooses the best epoch of each phase."""
    stability: Stability = field(default_factory=Stability)
    jacobians: int = 16  # of the 32 points of a batch of the second phase

    def __post_init__(self) -> None:
        if len(self.epochs) != 3 or min(self.epochs) < 1:
            raise SettingError(f"epochs = {self.epochs}; expected three numbers of at least 1.")
        if not 0 < self.held_out < 1:
            raise SettingError(f"held_out = {self.held_out:g}; expected a share between 0 and 1.")


@dataclass(frozen=True, eq=False)
class _Part:
    """Points and labels to train on, and those that choose the epoch."""

    train: Tensor
    labels: Tensor
    held: Tensor
    held_labels: Tensor

    def through(self, function: Callable[[Tensor], Tensor]) -> "_Part":
        """The same with each point mapped, once and for all."""
        with torch.no_grad():
            ends = [
                torch.cat([function(z) for z in points.split(1000)])
                for points in (self.train, self.held)
            ]
        return _Part(ends[0], self.labels, ends[1], self.held_labels)


def train_head(
    model: nn.Module,
    data: Data,
    *,
    layer: str,
    shape: str = "rebuffi",
    phases: Phases | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> tuple[Head, list[Record]]:
    """The head and its log. The base model stays in eval mode and is not changed.

    1: the projection, by cross-entropy against a fixed classifier of far-apart rows. 2: the ODE,
    so that the projected features are stable points at rest (`Stability`). 3: the last layer, by
    cross-entropy through the ODE; as nothing before it learns, the ODE is solved once.
    """
    phases = phases or Phases()
    check_frozen(model)
    check_solver("rk4")
    if len(data) < 2:
        raise DataError("SODEF trains on some images and chooses on others: give at least 2.")
    classes = len(data.class_names)
    part = _features(model, data, layer, phases.held_out, seed, progress)
    about = {"seed": seed, "data": data.fingerprint, "images": len(data), "version": __version__}
    head = Head(
        part.train.shape[1],
        classes,
        shape,
        layer=layer,
        base=weights_fingerprint(model),
        about=about,
    )
    head.reset(generator(seed, "head")).to(part.train)
    records = _first(head, part, phases, seed)
    part = part.through(head.projection)
    records += _second(head, part, phases, seed)
    part = part.through(lambda z: solve(head.field, z))
    records += _third(head, part, phases, seed)
    return head.requires_grad_(False), records


def _features(
    model: nn.Module, data: Data, layer: str, held_out: float, seed: int, progress: bool | None
) -> _Part:
    parts, count = split(model, layer), -(-len(data) // 250)
    found = [
        features_of(parts, images.contiguous(memory_format=torch.channels_last))
        for images, _ in track(data.batches(250), "features", progress, total=count)
    ]
    features = torch.cat(found)
    order = torch.randperm(len(data), generator=generator(seed, "held out"))
    held = max(1, round(held_out * len(data)))
    chosen, rest = order[:held], order[held:]
    return _Part(features[rest], data.labels[rest], features[chosen], data.labels[chosen])


def _first(head: Head, part: _Part, phases: Phases, seed: int) -> list[Record]:
    rows = far_apart(head.classes, WIDTH, generator(seed, "rows")).to(part.train)
    plain = isinstance(head.projection, nn.Linear)
    if plain:
        parametrizations.orthogonal(
            head.projection,
            orthogonal_map="householder",
            use_trivialization=False,  # which would draw from torch's own generator
        )

    def loss(z: Tensor, labels: Tensor, _: Generator) -> Tensor:
        return F.cross_entropy(head.projection(z) @ rows.T, labels)

    def accuracy(z: Tensor, labels: Tensor) -> float:
        return _share_right(head.projection(z) @ rows.T, labels)

    adam = optim.Adam(head.projection.parameters(), lr=0.1, eps=1e-2, amsgrad=True)
    rng = generator(seed, "phase", 1)
    records = _fit(1, head.projection, adam, part, loss, accuracy, phases.epochs[0], 128, rng)
    if plain:
        parametrize.remove_parametrizations(head.projection, "weight")
    return records


def _second(head: Head, part: _Part, phases: Phases, seed: int) -> list[Record]:
    stability = phases.stability

    def loss(z: Tensor, _: Tensor, rng: Generator) -> Tensor:
        some = torch.randperm(len(z), generator=rng)[: phases.jacobians]
        return stability.loss(head.field, z, z[some.to(z.device)])

    def score(z: Tensor, _: Tensor) -> float:
        return -float(stability.loss(head.field, z, z[: 16 * phases.jacobians]))

    adam = optim.Adam(head.field.parameters(), lr=1e-2, eps=1e-3, amsgrad=True)
    rng = generator(seed, "phase", 2)
    return _fit(2, head.field, adam, part, loss, score, phases.epochs[1], 32, rng)


def _third(head: Head, part: _Part, phases: Phases, seed: int) -> list[Record]:
    def loss(z: Tensor, labels: Tensor, _: Generator) -> Tensor:
        return F.cross_entropy(head.last(z), labels)

    def accuracy(z: Tensor, labels: Tensor) -> float:
        return _share_right(head.last(z), labels)

    adam = optim.Adam(head.last.parameters(), lr=1e-2, eps=1e-4)
    rng = generator(seed, "phase", 3)
    return _fit(3, head.last, adam, part, loss, accuracy, phases.epochs[2], 128, rng)


def _fit(
    phase: int,
    module: nn.Module,
    optimizer: optim.Optimizer,
    part: _Part,
    loss: Callable[[Tensor, Tensor, Generator], Tensor],
    score: Callable[[Tensor, Tensor], float],
    epochs: int,
    batch: int,
    rng: Generator,
) -> list[Record]:
    """Train the module and leave it as it was after the epoch that did best on what is held out."""
    records, best, kept = list[Record](), -math.inf, dict[str, Tensor]()
    for epoch in range(1, epochs + 1):
        total = 0.0
        for chosen in torch.randperm(len(part.train), generator=rng).split(batch):
            value = loss(part.train[chosen], part.labels[chosen], rng)
            if not torch.isfinite(value):
                raise DivergedError(
                    f"SODEF's phase {phase} diverged in epoch {epoch}: the loss is not finite."
                )
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            total += value.item() * len(chosen)
        with torch.no_grad():
            found = score(part.held, part.held_labels)
        record = {"phase": phase, "epoch": epoch, "loss": total / len(part.train)}
        records.append(record | {"held out": found})
        log.info("%s", records[-1])
        if found > best or not kept:
            best, kept = found, {k: v.clone() for k, v in module.state_dict().items()}
    module.load_state_dict(kept)
    return records


def far_apart(classes: int, width: int, rng: Generator) -> Tensor:
    """Unit rows as far from each other as rows can be: a regular simplex where it fits.

    It has room for width + 1 classes; more get random directions, nearly at right angles.
    """
    if classes > width + 1:
        return F.normalize(torch.randn(classes, width, generator=rng))
    counts = torch.arange(1.0, classes)
    steps = torch.tril(torch.ones(classes - 1, classes))  # Helmert: an orthonormal basis without 1
    steps[torch.arange(classes - 1), torch.arange(1, classes)] = -counts
    rows = F.normalize((steps / (counts * (counts + 1)).sqrt()[:, None]).T)
    return F.pad(rows, (0, width - (classes - 1)))


def _share_right(logits: Tensor, labels: Sequence[int] | Tensor) -> float:
    return float((logits.argmax(1) == torch.as_tensor(labels)).float().mean())
