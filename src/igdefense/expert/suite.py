"""The expert suite: the paper's nine, and every attack of this package."""

from collections.abc import Mapping

from igdefense.attacks.suites import SUITES, Column, budget_of, suite, the_nine
from igdefense.attacks.threat import Linf
from igdefense.errors import SettingError
from igdefense.expert import (
    averaged,
    correct_mask,
    features,
    frozen,
    high_margin,
    joint_mask,
    noisy_base,
    rays_majority,
    relaxed,
    rescaled,
    self_transfer,
    square_averaged,
    warm_start,
)
from igdefense.rankings.ranking import Ranking

EXPERT = ("expert", "expert-quick")
IDEAS = (
    noisy_base,  # A1
    high_margin,  # A2
    relaxed,  # A3
    joint_mask,  # A4
    correct_mask,  # A5
    frozen,  # A6
    averaged,  # A7
    rescaled,  # A8
    square_averaged,  # A9
    rays_majority,  # A10
    features,  # A11
    self_transfer,  # A12
    warm_start,  # A13
)


def columns_of(
    name: str,
    threat: Linf,
    overrides: Mapping[str, int] | None = None,
    other_ranking: Ranking | str | None = None,
) -> tuple[Column, ...]:
    """The columns of any suite.

    `expert`: the nine of the paper and those made for this defense. `expert-quick`: the same with
    small budgets, for demonstrations; its numbers are no evidence of robustness. `other_ranking` is
    one for the adversary to craft with (A12), or the reason why there is none.
    """
    if name in SUITES:
        return suite(name, threat, overrides)
    if name not in EXPERT:
        known = ", ".join((*SUITES, *EXPERT))
        raise SettingError(f"There is no suite {name!r}; expected one of {known}.")
    budget = budget_of(name, overrides)
    added: list[Column] = []
    for idea in IDEAS:
        if idea is self_transfer:
            added += self_transfer.columns(threat, budget, other_ranking)
        else:
            added += idea.columns(threat, budget)
    return (*the_nine(threat, budget), *added)
