"""Suites of attacks: what is run against a defense, and what each attack may look at."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from igdefense.attacks.apgd import APGD, TargetedAPGD
from igdefense.attacks.attack import Attack
from igdefense.attacks.auto_attack import AutoAttack
from igdefense.attacks.rays import RayS
from igdefense.attacks.threat import Linf
from igdefense.errors import SettingError

Target = Literal["defense", "base"]


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of the table: an attack and what it sees, the defense or the base model."""

    name: str
    attack: Attack
    target: Target = "defense"
    samples: int = 1  # EoT draws; a deterministic target is asked once, whatever this says
    gradient: bool = True  # whether it follows gradients


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How hard the attacks of a suite try; every number can be overridden."""

    steps: int = 100
    restarts: int = 1
    targets: int = 9
    transfer_targets: int = 3
    fab_steps: int = 100
    square_queries: int = 5_000
    rays_queries: int = 10_000
    rays_votes: int = 1
    eot: int = 20


QUICK = Budget(
    steps=10,
    targets=2,
    transfer_targets=2,
    fab_steps=10,
    square_queries=100,
    rays_queries=200,
    eot=2,
)
SUITES = ("quick", "autoattack", "autoattack-rand", "autoattack-stronger", "paper")


def suite(
    name: str, threat: Linf, overrides: Mapping[str, int] | None = None
) -> tuple[Column, ...]:
    """The columns of a suite, in the order of the paper's table.

    `paper`: the nine attacks of the paper. `autoattack`: its first alone, and `-rand` and
    `-stronger` its other settings. `quick`: the nine with small budgets, for demonstrations; its
    numbers are no evidence of robustness.
    """
    if name not in SUITES:
        raise SettingError(f"There is no suite {name!r}; expected one of {', '.join(SUITES)}.")
    budget = _overridden(QUICK if name == "quick" else Budget(), overrides or {})
    auto, rays, eot = _on(threat, budget, "defense", "")
    if name == "autoattack":
        return (auto,)
    if name == "autoattack-rand":
        return (eot,)
    if name == "autoattack-stronger":
        if overrides:
            raise SettingError("The budgets of autoattack-stronger are fixed; leave them out.")
        return (Column(name=name, attack=AutoAttack.stronger(threat)),)
    transfers = (
        _transferred("apgd-ce", APGD(threat=threat, loss="ce", **_apgd(budget))),
        _transferred("apgd-cw", APGD(threat=threat, loss="cw", **_apgd(budget))),
        _transferred(
            "apgd-t-dlr",
            TargetedAPGD(threat=threat, targets=budget.transfer_targets, **_apgd(budget)),
        ),
    )
    return (auto, rays, eot, *transfers, *_on(threat, budget, "base", "transfer-"))


def cheapest_first(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The order of a cascade: transferred gradients, then the rest as the suite has them."""

    def rank(column: Column) -> int:
        kind = type(column.attack)
        if kind in (APGD, TargetedAPGD):
            return 0
        cost = 4 if kind is RayS else 2 if column.samples > 1 else 3
        return cost + (4 if column.target == "defense" else 0)

    return tuple(sorted(columns, key=rank))


def _on(threat: Linf, budget: Budget, target: Target, prefix: str) -> tuple[Column, Column, Column]:
    """AutoAttack, RayS and APGD+EoT, which the paper runs on the defense and on its base."""
    standard = AutoAttack.standard(
        threat,
        steps=budget.steps,
        restarts=budget.restarts,
        targets=budget.targets,
        queries=budget.square_queries,
        fab_steps=budget.fab_steps,
    )
    # A ray that has reached the budget is not shortened further: the verdict is the same on a
    # deterministic model, and on a random one a point nearer the boundary is the weaker one.
    rays = RayS(
        threat=threat, queries=budget.rays_queries, votes=budget.rays_votes, stop_at_eps=True
    )
    rand = replace(AutoAttack.rand(threat, steps=budget.steps, restarts=budget.restarts), samples=1)
    return (
        Column(name=f"{prefix}autoattack", attack=standard, target=target),
        Column(name=f"{prefix}rays", attack=rays, target=target, gradient=False),
        Column(name=f"{prefix}apgd-eot", attack=rand, target=target, samples=budget.eot),
    )


def _apgd(budget: Budget) -> dict[str, Any]:
    return {"steps": budget.steps, "restarts": budget.restarts, "best": "strict"}


def _transferred(name: str, attack: Attack) -> Column:
    return Column(name=f"transfer-{name}", attack=attack, target="base")


def _overridden(budget: Budget, overrides: Mapping[str, int]) -> Budget:
    known = [field.name for field in fields(Budget)]
    for name, value in overrides.items():
        if name not in known:
            raise SettingError(f"There is no budget {name!r}; expected one of {', '.join(known)}.")
        if value < 1:
            raise SettingError(f"Budget {name} must be at least 1, got {value}.")
    return replace(budget, **overrides)
