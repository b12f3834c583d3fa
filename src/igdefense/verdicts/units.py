"""Units of work: one column of a suite on one shard of images, found in the store or computed."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from igdefense.attacks.attack import Attack
from igdefense.attacks.auto_attack import AutoAttack
from igdefense.attacks.suites import Column
from igdefense.data.data import Data
from igdefense.errors import SettingError
from igdefense.models.fingerprint import hash_text, identity
from igdefense.verdicts.judge import attack_seeds, check_budget, is_random, predict, view_of
from igdefense.verdicts.store import Store, image_ids


@dataclass(frozen=True, eq=False)
class Setting:
    """What every unit of a run shares; it travels to the workers once."""

    defense: nn.Module
    base: nn.Module | None
    data: Data
    columns: tuple[Column, ...]
    seed: int
    store: Store

    def target(self, column: Column) -> nn.Module:
        """What the attack of a column looks at."""
        if column.target == "defense":
            return self.defense
        if self.base is None:
            raise SettingError(
                f"{column.name} attacks the base model, and none was given: pass base=..., or "
                "choose the suite 'autoattack'."
            )
        return self.base

    def unit(self, column: Column) -> str:
        """The name of the column's folder in the store: all that its images depend on."""
        target = self.target(column)
        samples = column.samples if is_random(target) else 1
        about = (identity(target), repr(column.attack), versions(column.attack), samples, self.seed)
        return hash_text(*about)

    def gradients(self, column: Column) -> str:
        """Whose gradients a column follows: a rival says how it is differentiated."""
        if not column.gradient:
            return "none"
        if column.target == "base":
            return "the base model's (transfer)"
        return str(getattr(self.defense, "gradient", "own"))


@dataclass(frozen=True, eq=False)
class Shard:
    """Some images of the run, by position, and how each column left them."""

    positions: tuple[int, ...]
    clean: tuple[int, ...]  # predictions
    attacked: dict[str, dict[int, int]]  # column -> position -> prediction of the attacked image
    seconds: dict[str, float]  # of attacks that were computed here


Report = Callable[[str, int, int], None]  # column, images done, images broken


def versions(attack: Attack) -> list[Any]:
    """The version of an attack's code, and of those inside it."""
    inner = attack.attacks if isinstance(attack, AutoAttack) else ()
    return [type(attack).__name__, attack.version, *map(versions, inner)]


def run_shard(
    setting: Setting, positions: Sequence[int], *, cascade: bool, report: Report | None = None
) -> Shard:
    """Attack and judge the images at these positions, column by column.

    In a cascade each next column sees only the images that every earlier one left right.
    """
    part = setting.data[list(positions)]
    images, labels = _on_device(setting.defense, part.images[:], part.labels)
    ids = image_ids(images, labels)
    clean = predict(setting.defense, images, ids, setting.seed)
    standing = clean == labels
    shard = Shard(tuple(positions), tuple(clean.tolist()), {}, {})
    for column in setting.columns:
        left = torch.arange(len(labels)) if not cascade else standing.cpu().nonzero().flatten()
        names = [ids[i] for i in left.tolist()]
        x, seconds = attacked(setting, column, images[left], labels[left], names)
        found = predict(setting.defense, x, names, setting.seed) if len(left) else left
        right = found.to(labels) == labels[left]
        standing[left.to(standing.device)] &= right
        where = [positions[i] for i in left.tolist()]
        shard.attacked[column.name] = dict(zip(where, found.tolist(), strict=True))
        shard.seconds[column.name] = seconds
        if report:
            report(column.name, len(positions), int((~right).sum()))
    return shard


def attacked(
    setting: Setting, column: Column, images: Tensor, labels: Tensor, ids: Sequence[str]
) -> tuple[Tensor, float]:
    """The adversarial images of a column, from the store as far as they are there."""
    if not len(ids):
        return images, 0.0
    unit = setting.unit(column)
    found = setting.store.get(unit, ids)
    missing = torch.tensor([i for i, name in enumerate(ids) if name not in found], dtype=torch.long)
    seconds = 0.0
    if len(missing):
        names = [ids[i] for i in missing.tolist()]
        rng = attack_seeds(setting.seed, names, column.attack)
        view = view_of(setting.target(column), rng.child("view"), column.samples)
        started = time.monotonic()
        made = column.attack(view, images[missing], labels[missing], rng=rng)
        seconds = time.monotonic() - started
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


def only(setting: Setting, column: Column) -> Setting:
    """The same setting with one column."""
    return replace(setting, columns=(column,))
