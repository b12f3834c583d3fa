"""Verdicts from the shards of a run, whatever order they came in."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from igdefense.types import Labels
from igdefense.verdicts.units import Shard
from igdefense.verdicts.verdict import Verdict
from igdefense.verdicts.verdicts import Verdicts

CLEAN = "clean"


def collect(shards: Iterable[Shard], names: Iterable[str], labels: Labels) -> Verdicts:
    """What the defense got right."""
    shards = list(shards)
    count = len(shards[0].predictions)
    return _verdicts([(s, s.predictions) for s in shards], [CLEAN, *names], labels, count)


def collect_base(shards: Iterable[Shard], names: Iterable[str], labels: Labels) -> Verdicts:
    """What the base model got right, under the attacks made on it."""
    asked = [(s, (s.base,)) for s in shards if s.base is not None]
    seen = {shard.task.column for shard, _ in asked}
    return _verdicts(asked, [CLEAN, *(name for name in names if name in seen)], labels, 1)


def seconds_of(shards: Iterable[Shard], names: Iterable[str]) -> dict[str, float]:
    """How long each attack took, what was in the store aside."""
    seconds = dict.fromkeys(names, 0.0)
    for shard in shards:
        if shard.task.column is not None:
            seconds[shard.task.column] += shard.seconds
    return seconds


def _verdicts(
    found: Sequence[tuple[Shard, tuple[tuple[int, ...], ...]]],
    names: list[str],
    labels: Labels,
    count: int,
) -> Verdicts:
    draws = {name: torch.zeros(len(labels), count, dtype=torch.bool) for name in names}
    tested = {name: torch.zeros(len(labels), dtype=torch.bool) for name in names}
    for shard, predictions in found:
        name, positions = shard.task.column or CLEAN, list(shard.task.positions)
        tested[name][positions] = True
        draws[name][positions] = _right(predictions, labels[positions])
    clean = Verdict(CLEAN, draws.pop(CLEAN), tested[CLEAN])
    for right in draws.values():
        right[:, 0] &= clean.robust
    return Verdicts(clean, {name: Verdict(name, draws[name], tested[name]) for name in draws})


def _right(predictions: tuple[tuple[int, ...], ...], labels: Labels) -> Tensor:
    return labels.cpu().unsqueeze(1) == torch.tensor(predictions).T
