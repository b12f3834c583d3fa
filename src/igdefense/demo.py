"""The first look: rank the embedded model, defend it, attack it, print a table."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn

from igdefense.attacks.pgd import PGD
from igdefense.attacks.threat import Linf
from igdefense.attacks.views import Direct, Keyed, View
from igdefense.data.data import Data
from igdefense.data.datasets import load_data
from igdefense.defenses.ig_defense import defend
from igdefense.defenses.smoothing import Smoothed
from igdefense.models.load import load_model
from igdefense.progress import track
from igdefense.randomness import Streams, seed_of
from igdefense.rankings.clip_dissect import clip_dissect
from igdefense.rankings.controls import shuffled
from igdefense.rankings.leave_one_out import leave_one_out
from igdefense.types import Images, Labels
from igdefense.verdicts.statistics import Share


@dataclass(frozen=True)
class Row:
    """One line of the demo's table."""

    name: str
    clean: Share
    attacked: Share


def first_look(
    *,
    n: int = 200,
    keep: int = 16,
    steps: int = 20,
    eps: float = 8 / 255,
    seed: int = 0,
    encoder: str = "embedded",
) -> list[Row]:
    """Clean and PGD accuracy of the base model, LO-IR, CD-IR, a random ranking and smoothing alone.

    Each is attacked itself, through its own gradients, and judged on a draw of noise that the
    attack has not seen.
    """
    model = load_model("embedded")
    probe = load_data("embedded:probe")
    ranking = leave_one_out(model, probe, layer="layer4")
    by_names = clip_dissect(model, probe, layer="layer4", encoder=encoder)
    sigma = eps / 2
    contenders: dict[str, nn.Module] = {
        "base model": model,
        f"IG-Defense, LO-IR-{keep}": defend(model, ranking, keep, sigma=sigma, seed=seed),
        f"IG-Defense, CD-IR-{keep}": defend(model, by_names, keep, sigma=sigma, seed=seed),
        f"random ranking-{keep}": defend(
            model, shuffled(ranking, seed), keep, sigma=sigma, seed=seed
        ),
        "smoothing alone": Smoothed(model, sigma=sigma, seed=seed),
    }
    data = load_data("embedded:test", n=n)
    attack = PGD(threat=Linf(eps), steps=steps)
    return [_row(name, defense, attack, data, seed) for name, defense in contenders.items()]


def _row(name: str, defense: nn.Module, attack: PGD, data: Data, seed: int) -> Row:
    clean = attacked = 0
    batches = list(_with_positions(data, 50))
    for images, labels, positions in track(batches, f"PGD-{attack.steps} on {name}"):
        streams = Streams([seed_of(seed, "demo", position) for position in positions])
        x = attack(_view(defense, streams.child("attack")), images, labels, rng=streams)
        for inputs, judged in ((images, "clean"), (x, "attacked")):
            with torch.no_grad():
                right = _view(defense, streams.child("judge"))(inputs).argmax(1) == labels
            clean += int(right.sum()) if judged == "clean" else 0
            attacked += int(right.sum()) if judged == "attacked" else 0
    return Row(name, Share(clean, len(data)), Share(attacked, len(data)))


def _view(defense: nn.Module, rng: Streams) -> View:
    return Keyed(defense, rng) if getattr(defense, "random", False) else Direct(defense)


def _with_positions(data: Data, size: int) -> Iterator[tuple[Images, Labels, range]]:
    start = 0
    for images, labels in data.batches(size):
        yield images, labels, range(start, start + len(images))
        start += len(images)
