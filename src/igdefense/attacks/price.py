"""About how many passes of the model an attack makes for an image that it does not break."""

from igdefense.attacks.attack import Attack
from igdefense.attacks.suites import Column

GRADIENT = 3.0  # a forward and a backward pass, in forward passes
TARGETS = 9


def price(column: Column, *, random: bool, inference: float = 1.0) -> float:
    """In forward passes of the base model: for the order of units and for estimates of time.

    `random` says whether the target draws noise, else it is asked once for all draws of EoT;
    `inference` is what a call of it costs.
    """
    passes = _passes(column.attack) * (column.samples if random else 1) * inference
    start = column.start
    return passes + (0 if start is None else price(start, random=random, inference=inference))


def _passes(attack: Attack) -> float:
    inner = getattr(attack, "attacks", None)
    if inner is not None:
        return sum(_passes(one) for one in inner)
    restarts = getattr(attack, "restarts", 1)
    if queries := getattr(attack, "queries", None):
        return float(queries) * restarts
    targets = getattr(attack, "targets", 1) or TARGETS
    return GRADIENT * getattr(attack, "steps", 1) * restarts * targets
