"""The paper's analyses: how activations shift under attack, and what the loss looks like."""

from igdefense.analysis.activation_shift import activation_shift
from igdefense.analysis.loss_surface import loss_surface
from igdefense.attacks.pgd import PGD
from igdefense.attacks.threat import Linf
from igdefense.paper.bench import Bench
from igdefense.paper.tables import Row, contenders
from igdefense.randomness import Streams, seed_of

SURFACES = 4  # images whose surfaces are averaged


def shift(bench: Bench) -> list[Row]:
    """Figure 2 C and D: change in % of the neurons of each group under PGD-50 on the base model."""
    images, labels = bench.data.images[:], bench.data.labels
    attack = PGD(threat=Linf(bench.scale.eps), steps=50)
    rng = Streams([seed_of(bench.seed, "shift", i) for i in range(len(labels))])
    x = attack(bench.model, images, labels, rng=rng)
    found = activation_shift(
        bench.model, bench.ranking("LO-IR"), bench.scale.keep, images, x, labels, seed=bench.seed
    )
    rows: list[Row] = []
    for change in found.changes:
        low, high = change.interval
        rows.append(
            {
                "attack": "successful" if change.successful else "unsuccessful",
                "definition": change.definition,
                "neurons of": change.group,
                "images": str(change.images),
                "change %": f"{change.percent:+.1f} [{low:+.1f}, {high:+.1f}]",
            }
        )
    return rows


def surface(bench: Bench) -> list[Row]:
    """Is the loss anywhere in the plane higher than along the gradient's sign?"""
    images, labels = bench.data.images[:SURFACES], bench.data.labels[:SURFACES]
    rows: list[Row] = []
    for name, defense in contenders(bench).items():
        found = loss_surface(defense, images, labels, eps=bench.scale.eps, seed=bench.seed)
        middle = len(found.steps) // 2
        along = float(found.losses[:, :, middle].amax(1).mean())
        rows.append(
            {
                "defense": name,
                "clean loss": round(float(found.losses[:, middle, middle].mean()), 3),
                "highest along the gradient": round(along, 3),
                "anywhere in the plane": round(along + found.missed, 3),
            }
        )
    return rows
