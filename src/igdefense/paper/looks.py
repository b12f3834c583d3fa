"""The paper's analyses: how activations shift under attack, and what the loss looks like."""

from igdefense.attacks.pgd import PGD
from igdefense.attacks.suites import Column
from igdefense.attacks.threat import Linf
from igdefense.paper.bench import Bench
from igdefense.paper.outcome import Change, Row
from igdefense.paper.tables import contenders

SURFACES = 4  # images whose surfaces are averaged
GROUPS = {
    "true class": "true",
    "predicted class": "predicted",
    "other classes": "other",
    "no class": "unimportant",
}


def shift(bench: Bench) -> list[Row]:
    """Figure 2 C and D: change in % of the neurons of each group under PGD-50 on the base model."""
    attack = PGD(threat=Linf(bench.scale.eps), steps=50)
    found = bench.shift(Column(name="pgd-50", attack=attack, target="base"))
    rows: dict[str, Row] = {}
    for change in found.changes:
        row = rows.setdefault(change.definition, {"definition": change.definition})
        outcome = "successful" if change.successful else "unsuccessful"
        row[f"{outcome} {GROUPS[change.group]}"] = Change(
            change.percent, *change.interval, change.images
        )
    return list(rows.values())


def surface(bench: Bench) -> list[Row]:
    """Is the loss anywhere in the plane higher than along the gradient's sign?"""
    rows: list[Row] = []
    for name, defense in contenders(bench).items():
        found = bench.surface(name, defense, SURFACES)
        middle = len(found.steps) // 2
        along = float(found.losses[:, :, middle].amax(1).mean())
        rows.append(
            {
                "defense": name,
                "images": str(len(found.losses)),
                "clean loss": round(float(found.losses[:, middle, middle].mean()), 3),
                "highest along the gradient": round(along, 3),
                "anywhere in the plane": round(along + found.missed, 3),
            }
        )
    return rows
