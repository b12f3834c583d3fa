"""Suites of attacks: what is run against a defense, and what each attack may look at."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Protocol, runtime_checkable

from torch import nn

from igdefense.attacks.apgd import APGD, TargetedAPGD
from igdefense.attacks.attack import Attack
from igdefense.attacks.auto_attack import AutoAttack
from igdefense.attacks.rays import RayS
from igdefense.attacks.threat import Linf
from igdefense.errors import SettingError

Target = Literal["defense", "base", "surrogate"]
Group = Literal["paper", "expert"]


@runtime_checkable
class Surrogate(Protocol):
    """Builds the model an adversary differentiates in place of the defense: a frozen value."""

    def why_not(self, defense: nn.Module) -> str | None:
        """Why there is no such model of this defense; None if there is one."""
        ...

    def __call__(self, defense: nn.Module, base: nn.Module) -> nn.Module:
        """The model to attack; its `identity` names all that it depends on."""
        ...


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of the table: an attack and what it sees, the defense, its base or a surrogate."""

    name: str
    attack: Attack
    target: Target = "defense"
    samples: int = 1  # EoT draws; a deterministic target is asked once, whatever this says
    gradient: bool = True  # whether it follows gradients
    group: Group = "paper"
    surrogate: Surrogate | None = None  # for the target "surrogate"
    start: "Column | None" = None
    """Whose images the attack starts from, `attack(..., start=images)`."""
    choices: int = 0
    """Draws of the deployed defense, `attack(..., chooser=view)`, to choose among its points by."""
    only_random: bool = False  # the same as another column where the defense draws no noise
    rank: int | None = None  # its place in a cascade; None: by its kind

    def __post_init__(self) -> None:
        if (self.target == "surrogate") != (self.surrogate is not None):
            raise SettingError(f"{self.name}: target {self.target!r}, surrogate {self.surrogate}.")

    def why_not(self, defense: nn.Module) -> str | None:
        """Why the column says nothing about this defense; None if it does."""
        if self.only_random and not getattr(defense, "random", False):
            return "the defense draws no noise, so the paper's attack is the same"
        of_surrogate = self.surrogate and self.surrogate.why_not(defense)
        return of_surrogate or (self.start and self.start.why_not(defense)) or None


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
    noisy_samples: int = 16  # noisy copies of the base, for one run of the gradient
    noisy_target_samples: int = 4  # for a run towards each of the targets
    expert_draws: int = 5  # EoT draws of the attacks that are many
    joint_samples: int = 2
    surrogate_samples: int = 16
    warm_targets: int = 3
    square_draws: int = 20
    square_expert_queries: int = 1_000
    rays_expert_queries: int = 5_500
    rays_expert_votes: int = 11
    choices: int = 10


QUICK = Budget(
    steps=10,
    targets=2,
    transfer_targets=2,
    fab_steps=10,
    square_queries=100,
    rays_queries=200,
    eot=2,
    noisy_samples=2,
    noisy_target_samples=1,
    expert_draws=2,
    joint_samples=1,
    surrogate_samples=4,
    warm_targets=1,
    square_draws=2,
    square_expert_queries=20,
    rays_expert_queries=60,
    rays_expert_votes=3,
    choices=3,
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
    budget = budget_of(name, overrides)
    auto, _, eot = _on(threat, budget, "defense", "")
    if name == "autoattack":
        return (auto,)
    if name == "autoattack-rand":
        return (eot,)
    if name == "autoattack-stronger":
        if overrides:
            raise SettingError("The budgets of autoattack-stronger are fixed; leave them out.")
        return (Column(name=name, attack=AutoAttack.stronger(threat)),)
    return the_nine(threat, budget)


def budget_of(suite: str, overrides: Mapping[str, int] | None = None) -> Budget:
    """The budget of a suite, with some of its numbers replaced."""
    return _overridden(QUICK if suite.endswith("quick") else Budget(), overrides or {})


def the_nine(threat: Linf, budget: Budget) -> tuple[Column, ...]:
    """The attacks of the paper, in the order of its table."""
    auto, rays, eot = _on(threat, budget, "defense", "")
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
        if column.rank is not None:
            return column.rank
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
