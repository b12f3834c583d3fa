"""Units of work: one column of a suite on one shard of images, found in the store or computed."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from igdefense.attacks.attack import Attack
from igdefense.attacks.auto_attack import AutoAttack
from igdefense.attacks.losses import cw
from igdefense.attacks.suites import Column
from igdefense.data.data import Data
from igdefense.errors import SettingError
from igdefense.models.fingerprint import hash_text, identity
from igdefense.models.folded import quicker
from igdefense.types import Images
from igdefense.verdicts.judge import (
    attack_seeds,
    check_budget,
    is_random,
    logits_of,
    predict,
    predict_draws,
    view_of,
)
from igdefense.verdicts.store import Store, image_ids

AVERAGED = "shared-1"  # how draws are averaged: what they share is computed once
QUERIED = "folded-1"  # how attacks query a model; another way would round, and so end, differently


@dataclass(frozen=True, eq=False)
class Setting:
    """What every unit of a run shares; it travels to the workers once."""

    defense: nn.Module
    base: nn.Module | None
    data: Data
    columns: tuple[Column, ...]
    seed: int
    store: Store
    draws: int = 0  # fresh draws of a random defense, after the judging draw
    judge_base: bool = False  # whether the base is shown the attacks made on it
    _built: dict[str, nn.Module] = field(default_factory=dict, repr=False)
    _units: dict[str, str] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_built": {}, "_units": {}}  # made again in each process

    @property
    def parts(self) -> tuple[object, ...]:
        """What other runs on the same base and data have, too."""
        return self.data, self.base

    def to(self, device: str) -> None:
        """Move the models; images follow them, task by task."""
        self.defense.to(device)
        if self.base is not None:
            self.base.to(device)

    def arrived(self) -> None:
        """A worker has it: is the store the same one here?"""
        self.store.arrived()

    def column(self, name: str) -> Column:
        (column,) = [column for column in self.columns if column.name == name]
        return column

    def target(self, column: Column) -> nn.Module:
        """What the attack of a column looks at."""
        if column.target == "defense":
            return self.defense
        if self.base is None:
            raise SettingError(
                f"{column.name} attacks the base model, and none was given: pass base=..., or "
                "choose the suite 'autoattack'."
            )
        return self._seen(column, self.defense, self.base)

    def queried(self, column: Column, images: Images) -> nn.Module:
        """The same, computed with less work: what the attack really asks."""
        defense = quicker(self.defense, images)
        if column.target == "defense" or self.base is None:
            return defense
        return self._seen(column, defense, quicker(self.base, images))

    def _seen(self, column: Column, defense: nn.Module, base: nn.Module) -> nn.Module:
        if column.surrogate is None:
            return base
        name = f"{column.surrogate!r} {id(defense)} {id(base)}"
        if name not in self._built:
            self._built[name] = column.surrogate(defense, base).eval()
        return self._built[name]

    def unit(self, column: Column) -> str:
        """The name of the column's folder in the store: all that its images depend on."""
        if column.name not in self._units:
            target = self.target(column)
            samples = column.samples if is_random(target) else 1
            attack = column.attack
            about = [identity(target), repr(attack), versions(attack), samples, self.seed]
            if samples > 1:
                about.append(AVERAGED)
            if column.start is not None:
                about += ["start", self.unit(column.start)]
            if column.choices:
                about += ["choices", column.choices, identity(self.defense)]
            self._units[column.name] = hash_text(QUERIED, *about)
        return self._units[column.name]

    def gradients(self, column: Column) -> str:
        """Whose gradients a column follows: a rival says how it is differentiated."""
        if not column.gradient:
            return "none"
        if column.target == "base":
            return "the base model's (transfer)"
        if column.target == "surrogate":
            return "a surrogate's"
        return str(getattr(self.defense, "gradient", "own"))


@dataclass(frozen=True)
class Task:
    """One column, or none for the clean images, on the images at some positions."""

    positions: tuple[int, ...]
    column: str | None = None


@dataclass(frozen=True)
class Shard:
    """What the defense said to the images of a task, and the base if it was asked."""

    task: Task
    predictions: tuple[tuple[int, ...], ...]  # draw by draw, the judging draw first
    margins: tuple[float, ...] = ()  # of clean images, the true class over the next
    seconds: float = 0.0  # of attacking, where it was not in the store
    base: tuple[int, ...] | None = None


def tasks(
    positions: Sequence[int], names: Sequence[str | None], batch_size: int, workers: int
) -> list[Task]:
    """Equal parts for each column, at least one for each worker.

    Positions sorted by how long an attack may take on them are dealt out like cards.
    """
    count = max(-(-len(positions) // batch_size), min(workers, len(positions)))
    parts = [tuple(sorted(positions[i::count])) for i in range(count)]
    return [Task(part, name) for name in names for part in parts]


def versions(attack: Attack) -> list[Any]:
    """The version of an attack's code, and of those inside it."""
    inner = attack.attacks if isinstance(attack, AutoAttack) else ()
    return [type(attack).__name__, attack.version, *map(versions, inner)]


def run_task(setting: Setting, task: Task) -> Shard:
    """Attack and judge the images of a task."""
    part = setting.data[list(task.positions)]
    images, labels = _on_device(setting.defense, part.images[:], part.labels)
    ids = image_ids(images, labels)
    x, seconds, on_base = images, 0.0, True
    if task.column is not None:
        column = setting.column(task.column)
        x, seconds = attacked(setting, column, images, labels, ids)
        on_base = column.target == "base"
    found = predict_draws(setting.defense, x, ids, setting.seed, setting.draws)
    draws = tuple(tuple(draw) for draw in found.T.tolist())
    margins: tuple[float, ...] = ()
    if task.column is None:
        margins = tuple((-cw(logits_of(setting.defense, x, ids, setting.seed), labels)).tolist())
    base = None
    if setting.judge_base and setting.base is not None and on_base:
        base = tuple(predict(setting.base, x, ids, setting.seed).tolist())
    return Shard(task, draws, margins, seconds, base)


def attacked(
    setting: Setting, column: Column, images: Tensor, labels: Tensor, ids: Sequence[str]
) -> tuple[Tensor, float]:
    """The adversarial images of a column, from the store as far as they are there."""
    unit = setting.unit(column)
    found = setting.store.get(unit, ids)
    missing = torch.tensor([i for i, name in enumerate(ids) if name not in found], dtype=torch.long)
    seconds = 0.0
    if len(missing):
        names = [ids[i] for i in missing.tolist()]
        rng = attack_seeds(setting.seed, names, column.attack)
        view = view_of(setting.queried(column, images), rng.child("view"), column.samples)
        clean, right = images[missing], labels[missing]
        given: dict[str, Any] = {}
        if column.start is not None:
            given["start"], seconds = attacked(setting, column.start, clean, right, names)
        if column.choices:
            given["chooser"] = view_of(setting.defense, rng.child("chooser"), column.choices)
        started = time.monotonic()
        made = column.attack(view, clean, right, rng=rng, **given)
        seconds += time.monotonic() - started
        check_budget(column.attack, made, images[missing])
        about = {"column": column.name, "attack": repr(column.attack), "seconds": seconds}
        setting.store.put(unit, names, made, about)
        found |= dict(zip(names, made.cpu(), strict=True))
    x = torch.stack([found[name] for name in ids]).to(images)
    check_budget(column.attack, x, images)
    return x, seconds


def _on_device(model: nn.Module, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    tensor = next(iter([*model.parameters(), *model.buffers()]), None)
    if tensor is None:
        return images, labels
    return images.to(tensor.device), labels.to(tensor.device)
