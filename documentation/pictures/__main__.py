"""Draw the pictures again: all of them, or those named."""

import sys
from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from documentation.pictures import climbs, diagrams, inside, searches, transfers
from documentation.pictures.canvas import written

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
PICTURES: dict[str, Callable[[], Figure]] = {
    "defense": diagrams.defense,
    "views": diagrams.views,
    "auto-attack": diagrams.auto_attack,
    "gradient": climbs.gradient,
    "targets": climbs.targets,
    "square": searches.square,
    "rays": searches.rays,
    "oracle": searches.oracle,
    "noise": transfers.noise,
    "eot": transfers.eot,
    "temperature": transfers.temperature,
    "routes": inside.routes,
    "draws": inside.draws,
    "features": inside.features,
    "relatives": inside.relatives,
    "warm": inside.warm,
    "keep": inside.keep,
}


def main(names: list[str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in names or PICTURES:
        (FOLDER / f"{name}.svg").write_text(written(PICTURES[name]()))
        print(f"{name}.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
