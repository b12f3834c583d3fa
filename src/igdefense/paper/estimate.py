"""How long a table will take, from what it would run and one unit of that, timed."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn

from igdefense.analysis.activation_shift import ActivationShift
from igdefense.analysis.loss_surface import LossSurface
from igdefense.analysis.passes import count_passes
from igdefense.attacks.apgd import APGD
from igdefense.attacks.attack import Attack
from igdefense.attacks.auto_attack import AutoAttack
from igdefense.attacks.fab import FABT
from igdefense.attacks.rays import RayS
from igdefense.attacks.square import Square
from igdefense.attacks.suites import Column
from igdefense.attacks.threat import Linf
from igdefense.data.data import Data
from igdefense.data.subset import balanced
from igdefense.expert.suite import columns_of
from igdefense.layers import layers
from igdefense.models.folded import quicker
from igdefense.paper.bench import Bench
from igdefense.randomness import Streams, seed_of
from igdefense.rankings.ranking import Ranking
from igdefense.verdicts.run import Run
from igdefense.verdicts.verdict import Verdict

GRADIENT = 3  # a forward and a backward pass, in forward passes
TARGETS = 9  # of an attack that takes as many as there are, up to nine
FIRST, RANKED = 16, 100  # images of the timed unit, and of a timed ranking


@dataclass(frozen=True)
class Estimate:
    """At most so many seconds: attacks stop early on images that fall."""

    seconds: float
    unit: str  # what was timed
    unit_seconds: float
    runs: int
    rankings: int

    def __str__(self) -> str:
        runs, rankings = (
            f"{count} {word}{'s' * (count != 1)}"
            for count, word in ((self.runs, "run"), (self.rankings, "ranking"))
        )
        text = f"{rankings} and {runs}, at most about {_duration(self.seconds)} here"
        if not self.runs:
            return text
        return f"{text}: the first unit, {self.unit}, took {self.unit_seconds:.1f} s"


class Plan(Bench):
    """A bench that notes what would be run and ranks nothing; everything survives."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(
            bench.scale, bench.out, seed=bench.seed, backend=bench.backend, device=bench.device
        )
        self.__dict__ |= {"model": bench.model, "data": bench.data, "probe": bench.probe}
        self.runs: list[tuple[nn.Module, tuple[Column, ...]]] = []
        self.rankings: set[tuple[str, str, int | None]] = set()

    def ranking(
        self, method: str, layer: str | None = None, per_class: int | None = None
    ) -> Ranking:
        name, image = layer or self.layer, self.data.images[:1].to(self.device)
        self.rankings.add(("LO-IR" if method == "random" else method, name, per_class))
        (found,) = [one for one in layers(self.model, image) if one.name == name]
        return Ranking(name, torch.zeros(len(self.data.class_names), found.neurons))

    def rank_anew(
        self, method: str, layer: str | None = None, probe: Data | None = None
    ) -> Ranking:
        return self.ranking(method, layer)

    def times(self, defenses: Mapping[str, nn.Module]) -> dict[str, float]:
        return dict.fromkeys(defenses, 1.0)

    def run(
        self,
        name: str,
        defense: nn.Module,
        *,
        suite: str | tuple[Column, ...] | None = None,
        eps: float | None = None,
        budget: dict[str, int] | None = None,
    ) -> Run:
        chosen, size = suite or self.scale.suite, eps or self.scale.eps
        columns = columns_of(chosen, Linf(size), budget) if isinstance(chosen, str) else chosen
        self.runs.append((defense, columns))
        right = torch.ones(len(self.data), 1, dtype=torch.bool)
        verdicts = {column.name: Verdict.on_all(column.name, right) for column in columns}
        return Run(Verdict.on_all("clean", right), verdicts, {"seed": self.seed})

    def shift(self, column: Column) -> ActivationShift:
        self.run(column.name, self.model, suite=(column,), eps=column.attack.threat.eps)
        found = self.ranking("LO-IR")
        return ActivationShift(found.layer, "LO-IR", self.scale.keep, found.neurons, 0, ())

    def surface(self, name: str, defense: nn.Module, count: int) -> LossSurface:
        return LossSurface(self.scale.eps, torch.zeros(3), torch.zeros(1, 3, 3), 1)


def estimate(plan: Plan, bench: Bench) -> Estimate | None:
    """Time the cheapest attack on the first images, and each ranking on a few of its own."""
    units = [(d, column) for d, columns in plan.runs for column in columns]
    if not units and not plan.rankings:
        return None
    seconds = sum(_ranking_seconds(bench, *key) for key in sorted(plan.rankings, key=str))
    if not units:
        return Estimate(seconds, "", 0.0, 0, len(plan.rankings))
    part = bench.data[: min(FIRST, len(bench.data))]
    images, labels = part.images[:].to(bench.device), part.labels.to(bench.device)
    passes: dict[int, float] = {}

    def work(unit: tuple[nn.Module, Column]) -> float:
        """Forward passes of the base model that a column may need for one image."""
        target = _target(unit, bench)
        if id(target) not in passes:
            found = count_passes(target, bench.model, images[:1])
            passes[id(target)] = found.forward + 2 * found.backward
        return passes[id(target)] * _draws(unit, bench) * _queries(unit[1].attack)

    # The base's units are shared by all runs of a table: one of each is made.
    distinct = {(id(_target(unit, bench)), repr(unit[1])): unit for unit in units}.values()
    cheapest = min(distinct, key=lambda unit: (unit[1].target != "base", work(unit)))
    column, attack = cheapest[1], _short(cheapest[1].attack)
    rng = Streams([seed_of(bench.seed, "timed", i) for i in range(len(images))])
    started = time.monotonic()
    attack(quicker(_target(cheapest, bench), images), images, labels, rng=rng)
    elapsed = time.monotonic() - started
    share = _queries(attack) / _queries(column.attack) / _draws(cheapest, bench)
    for_each = elapsed / (share * work(cheapest) * len(images))
    seconds += for_each * sum(map(work, distinct)) * len(bench.data) / bench.backend.size()
    unit = f"{type(attack).__name__} of {column.name} on {len(images)} images"
    return Estimate(seconds, unit, elapsed, len(plan.runs), len(plan.rankings))


def _target(unit: tuple[nn.Module, Column], bench: Bench) -> nn.Module:
    return bench.model if unit[1].target == "base" else unit[0]


def _draws(unit: tuple[nn.Module, Column], bench: Bench) -> int:
    """How often an attack asks a random target about one point."""
    return unit[1].samples if getattr(_target(unit, bench), "random", False) else 1


def _short(attack: Attack) -> Attack:
    """Of attacks in a row the first; and APGD so that it goes all its steps on every image."""
    if isinstance(attack, AutoAttack):
        return _short(attack.attacks[0])
    return replace(attack, best="strict", restarts=1) if isinstance(attack, APGD) else attack


def _ranking_seconds(bench: Bench, method: str, layer: str, per_class: int | None) -> float:
    """Of a whole ranking, from one on some images of each class."""
    classes = len(bench.probe.class_names)
    few = balanced(bench.probe, max(1, RANKED // classes), bench.seed)
    started = time.monotonic()
    bench.rank_anew(method, layer, few)
    elapsed = time.monotonic() - started
    images = len(bench.probe) if per_class is None else per_class * classes
    return elapsed * images / len(few)


def _queries(attack: Attack) -> float:
    """Forward passes of its view that an attack may ask for, the worst case for one image."""
    if isinstance(attack, AutoAttack):
        return sum(map(_queries, attack.attacks)) * attack.samples
    if isinstance(attack, Square):
        return attack.queries * attack.restarts
    if isinstance(attack, RayS):
        return attack.queries * attack.votes
    steps, restarts = getattr(attack, "steps", 1), getattr(attack, "restarts", 1)
    targets = getattr(attack, "targets", 1) or TARGETS
    each = GRADIENT + 2 * isinstance(attack, FABT)  # which also asks where it stands
    return float(each * steps * restarts * targets)


def _duration(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"
