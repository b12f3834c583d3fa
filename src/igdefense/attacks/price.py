"""About how many passes of the model an attack makes for an image that it does not break."""

from igdefense.attacks.attack import Attack
from igdefense.attacks.suites import Column

GRADIENT = 3.0  # a forward and a backward pass, in forward passes
TARGETS = 9


def price(column: Column) -> float:
    """In forward passes of the base model: for the order of units and for estimates of time."""
    # The defense runs the network twice, once for its guess.
    passes = _passes(column.attack) * column.samples * (1 if column.target == "base" else 2)
    return passes + (price(column.start) if column.start is not None else 0)


def _passes(attack: Attack) -> float:
    inner = getattr(attack, "attacks", None)
    if inner is not None:
        return sum(_passes(one) for one in inner)
    restarts = getattr(attack, "restarts", 1)
    if queries := getattr(attack, "queries", None):
        return float(queries) * restarts
    targets = getattr(attack, "targets", 1) or TARGETS
    return GRADIENT * getattr(attack, "steps", 1) * restarts * targets
