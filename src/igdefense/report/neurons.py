"""A ranking's neurons: each class's top ones, what excites them and which classes they serve."""

from typing import Any

import torch
from torch import Tensor

from igdefense.data.data import Data
from igdefense.defenses.ig_defense import IGDefense
from igdefense.rankings.maps import averages, stream
from igdefense.report.sprite import Sprite
from igdefense.split import split

TOP, IMAGES = 6, 8
MOST_CLASSES = 100  # shown; the plots have all


@torch.no_grad()
def neurons(name: str, defense: IGDefense, data: Data, first_sprite: int) -> tuple[Any, Sprite]:
    """Plain data for the page's script, and the sprite of the images, numbered `first_sprite`."""
    ranking, keep = defense.ranking, defense.keep
    levels = torch.cat(
        [averages(a).cpu() for _, a in stream(split(defense.model, ranking.layer), data, 100, name)]
    )
    order = ranking.order
    places = order.argsort(dim=1)
    top, count = min(TOP, ranking.neurons), min(IMAGES, len(data))
    used = order[:MOST_CLASSES, :top].unique()
    exciting = levels[:, used].argsort(dim=0, descending=True, stable=True)[:count].T
    found = dict(zip(used.tolist(), exciting, strict=True))
    shown = exciting.unique()
    tiles = {position: tile for tile, position in enumerate(shown.tolist())}
    by_neuron = {
        str(neuron): {
            "tiles": [tiles[p] for p in positions.tolist()],
            "labels": data.labels[positions].tolist(),
            "levels": [float(f"{v:.3g}") for v in levels[positions, neuron].tolist()],
            "serves": _serves(places[:, neuron], keep),
        }
        for neuron, positions in found.items()
    }
    content = {
        "name": name,
        "method": ranking.provenance.get("method", "ranking"),
        "layer": ranking.layer,
        "keep": keep,
        "width": ranking.neurons,
        "classes": list(data.class_names)[:MOST_CLASSES],
        "names": list(data.class_names),
        "images": len(data),
        "sprite": first_sprite,
        "top": [
            [[n, float(f"{float(ranking.scores[c, n]):.3g}")] for n in order[c, :top].tolist()]
            for c in range(min(MOST_CLASSES, ranking.classes))
        ],
        "neurons": by_neuron,
    }
    return content, Sprite.of(data.images[shown])


def _serves(places: Tensor, keep: int) -> list[tuple[int, int]]:
    """Class and place, the highest place first, of the classes with the neuron in their top."""
    served = [(place, label) for label, place in enumerate(places.tolist()) if place < keep]
    return [(label, place + 1) for place, label in sorted(served)]
