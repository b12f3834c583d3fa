"""A10, RayS with a majority oracle: decisions one can bisect on.

Why: RayS bisects along rays and believes every answer. A random defense sometimes answers wrong
far inside its right region; the search takes that for the boundary, never looks further out again
and ends at points that are right on the next draw. The paper's RayS numbers on the defense stand
within 0.2 points of the clean accuracy: they say nothing.

What is asked: whether most of an odd number of draws are wrong, each draw counted as a query. No
logits, no gradients: this is the weakest adversary of the suite, and the hardest to fool by masked
gradients. For a deterministic defense it is the paper's RayS, and left out.

What it would show: if it breaks more than the paper's RayS, noise was protecting the defense from
the bisection only. It works for any random defense.
"""

from igdefense.attacks.rays import RayS
from igdefense.attacks.suites import Budget, Column
from igdefense.attacks.threat import Linf


def columns(threat: Linf, budget: Budget) -> tuple[Column, ...]:
    attack = RayS(
        threat=threat,
        queries=budget.rays_expert_queries,
        votes=budget.rays_expert_votes,
        stop_at_eps=True,
    )
    return (
        Column(
            name="rays-majority",
            attack=attack,
            gradient=False,
            only_random=True,
            group="expert",
            rank=9,
        ),
    )
