"""What the paper published for the defenses of one's own runs, on its own base models."""

from collections.abc import Sequence
from typing import Any

from igdefense.data.cifar10 import CLASSES
from igdefense.errors import SettingError
from igdefense.paper.published import published, tables

METHODS = {
    "none": "none",
    "lo-ir": "LO-IR",
    "cd-ir": "CD-IR",
    "hedge": "HD",
    "anti-adversary": "CAAA",
    "sodef": "SODEF",
}
ABLATED = {"smoothing": ("none", 1), "random": ("random-50", 2)}  # masks and passes of those rows
SAME = {"autoattack": "AA"}  # a row of our table and a column of theirs


def tables_for(class_names: Sequence[str], eps: float) -> tuple[str, ...]:
    """The published tables on the same data and threat, as far as classes and eps tell."""
    at_255 = round(255 * eps, 6)
    if tuple(class_names) == tuple(CLASSES) and at_255 == 8:
        return ("cifar10-rn18", "cifar10-wrn", "rivals", "ablation")
    if len(class_names) == 100 and at_255 == 8:
        return ("cifar100",)
    return ("imagenet",) if len(class_names) == 1000 and at_255 == 4 else ()


def counterparts(defense: str, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The rows of these tables about a defense (as `--defense` names it), by base model."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        for row in tables()[name].rows:
            if _is(defense, row) and row["base"] not in found:
                found[str(row["base"])] = row
    return found


def accuracy(row: dict[str, Any], attack: str) -> float | None:
    """What a published row says in a row of our table."""
    value = row.get(attack, row.get(SAME.get(attack, "")))
    return float(value) if isinstance(value, int | float) else None


def chosen(spec: str, defense: str) -> dict[str, Any] | None:
    """The row of `TABLE/BASE` about a defense: `cifar10-rn18/DAJAT RN18`."""
    name, _, base = spec.partition("/")
    bases = list(dict.fromkeys(str(row.get("base")) for row in published(name).rows))
    if base not in bases:
        raise SettingError(
            f"Published accuracies are a JSON file or TABLE/BASE; {name} has the base models "
            f"{', '.join(bases)}, not {base!r}."
        )
    return counterparts(defense, [name]).get(base)


def _is(defense: str, row: dict[str, Any]) -> bool:
    if defense in ABLATED:
        masks, passes = ABLATED[defense]
        return row.get("masks") == masks and row["smoothing"] and row["passes"] == passes
    method = METHODS.get(defense)
    return (
        method is not None
        and str(row.get("defense", "")).split("-50")[0].split("-750")[0] == method
    )
