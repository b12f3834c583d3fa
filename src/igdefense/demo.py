"""The demo: rank the embedded model, defend it, attack it, and show what happened on a page."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from igdefense.data.data import Data
from igdefense.data.datasets import load_data
from igdefense.defenses.ig_defense import IGDefense, defend
from igdefense.defenses.smoothing import Smoothed
from igdefense.models.load import load_model
from igdefense.rankings.clip_dissect import clip_dissect
from igdefense.rankings.leave_one_out import leave_one_out
from igdefense.rankings.ranking import Ranking
from igdefense.report.evidence import Evidence, gather
from igdefense.report.exhibit import Exhibit
from igdefense.report.page import write_page
from igdefense.verdicts.evaluate import evaluate

log = logging.getLogger(__name__)
LAYER, PAGE, RANKING = "layer4", "page.html", "ranking.safetensors"
DRAWS = 5  # fresh draws of a random defense


@dataclass(frozen=True)
class Contender:
    """What the demo judges: its name on the page, its folder and the `--defense` it is."""

    name: str
    kind: str
    defense: nn.Module

    @property
    def ranking(self) -> Ranking | None:
        return self.defense.ranking if isinstance(self.defense, IGDefense) else None


def show(
    folder: Path,
    *,
    n: int = 64,
    keep: int = 16,
    eps: float = 8 / 255,
    seed: int = 0,
    encoder: str = "embedded",
    workers: int = 2,
    budget: dict[str, int] | None = None,
    progress: bool | None = None,
) -> Evidence:
    """Judge the base model, smoothing alone and IG-Defense, each in a folder; write `page.html`.

    The suite is `quick`: small budgets, so its numbers are no evidence. The same call goes on
    where an interrupted one stopped.
    """
    model, probe = load_model("embedded"), load_data("embedded:probe")
    data = load_data("embedded:test", n=n)
    exhibits = []
    log.info("ranking the neurons of %s by LO-IR and CD-IR", LAYER)
    entrants = contenders(model, probe, keep=keep, sigma=eps / 2, seed=seed, encoder=encoder)
    for i, entrant in enumerate(entrants):
        log.info("%d of %d: attacking %s", i + 1, len(entrants), entrant.name)
        out = folder / entrant.kind
        run = evaluate(
            entrant.defense,
            data,
            base=model,
            suite="quick",
            eps=eps,
            seed=seed,
            out=out,
            workers=workers,
            draws=DRAWS,
            budget=budget,
            name=entrant.name,
            recipe=_recipe(entrant, n=n, sigma=eps / 2, seed=seed),
            progress=progress,
        )
        if entrant.ranking is not None:
            entrant.ranking.save(out / RANKING)
        exhibits.append(Exhibit(entrant.name, run, out, data, entrant.defense, model))
    log.info("looking at neurons, losses and images")
    evidence = gather(exhibits, probe=probe, surface_images=4, points=15, progress=progress)
    write_page(evidence, folder / PAGE, title="igdefense demo: the embedded CIFAR-10 ResNet18")
    return evidence


def contenders(
    model: nn.Module, probe: Data, *, keep: int, sigma: float, seed: int, encoder: str
) -> list[Contender]:
    """The base model, smoothing alone, and IG-Defense with LO-IR and CD-IR."""
    rankings = {
        "lo-ir": leave_one_out(model, probe, LAYER),
        "cd-ir": clip_dissect(model, probe, LAYER, encoder=encoder),
    }
    noise: dict[str, Any] = {"sigma": sigma, "seed": seed}
    return [
        Contender("base model", "none", model),
        Contender("smoothing alone", "smoothing", Smoothed(model, **noise)),
        *(
            Contender(f"{kind.upper()}-{keep}", kind, defend(model, ranking, keep, **noise))
            for kind, ranking in rankings.items()
        ),
    ]


def _recipe(entrant: Contender, *, n: int, sigma: float, seed: int) -> dict[str, Any]:
    """As `igd evaluate` keeps it, so that `igd verify` and `igd report` take the demo's runs."""
    keep = entrant.defense.keep if isinstance(entrant.defense, IGDefense) else None
    return {
        **{"model": "embedded", "arch": None, "mean": None, "std": None},
        **{"data": "embedded:test", "n": n, "size": None, "defense": entrant.kind, "keep": keep},
        **{"sigma": sigma, "samples": 1, "temperature": 0.01, "seed": seed, "rival": None},
    }
