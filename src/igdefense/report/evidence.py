"""Evidence: everything a page or a set of figures says about some runs, computed once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from igdefense.analysis.activation_shift import ActivationShift, activation_shift
from igdefense.analysis.class_disparity import ClassDisparity
from igdefense.analysis.cost import Cost, cost
from igdefense.analysis.loss_surface import LossSurface, loss_surface
from igdefense.analysis.survival import Survival
from igdefense.data.data import Data
from igdefense.defenses.tune import Tuning, tune
from igdefense.models.fingerprint import identity
from igdefense.paper.outcome import Outcome
from igdefense.progress import track
from igdefense.rankings.compare import Comparison, compare
from igdefense.report.exhibit import Exhibit, side_by_side
from igdefense.report.gallery import Gallery, gallery
from igdefense.report.neurons import neurons
from igdefense.report.published_table import published_for
from igdefense.report.sprite import Sprite

SPEED_BATCH, SPEED_ROUNDS = 16, 5


@dataclass(frozen=True, eq=False)
class Evidence:
    """By the run's name; empty where the runs alone cannot tell."""

    exhibits: tuple[Exhibit, ...]
    survivals: Mapping[str, Survival]
    disparities: Mapping[str, ClassDisparity]
    shifts: Mapping[str, tuple[ActivationShift, str]]  # with the attack looked at
    tunings: Mapping[str, tuple[Tuning, int]]  # with the keep that was run
    surfaces: Mapping[str, LossSurface]
    costs: Mapping[str, Cost]
    comparison: Comparison | None
    neurons: tuple[dict[str, Any], ...]
    gallery: Gallery | None
    sprites: tuple[Sprite, ...]  # the gallery's, then the neurons'
    published: Mapping[str, Mapping[str, float]]
    published_by: str = ""  # the table and base model that they are of, where one was named
    outcomes: tuple[Outcome, ...] = ()  # tables and sweeps of `igd reproduce`


def gather(
    exhibits: Sequence[Exhibit],
    *,
    probe: Data | None = None,
    images: int = 200,
    surface_images: int = 8,
    points: int = 17,
    published: Mapping[str, Mapping[str, float]] | str | None = None,
    outcomes: Sequence[Outcome] = (),
    progress: bool | None = None,
) -> Evidence:
    """Analyse runs on the same images; no attack is run.

    `probe` holds the images on which neurons are looked at, the runs' own by default; `published`
    has accuracies in % by run and row of the table, to stand beside ours, or names a table and a
    base model of the paper (`cifar10-rn18/DAJAT RN18`); `outcomes` are shown along with the runs.
    """
    runs = side_by_side(exhibits)
    theirs = published_for(runs, published) if isinstance(published, str) else published or {}
    album = gallery(runs, images, progress)
    sprites = list(album.sprites) if album else []
    looked_at = []
    for e in track(runs, "neurons", progress):
        pictures = probe or e.data
        if e.guided is not None and pictures is not None:
            content, sprite = neurons(e.name, e.guided, pictures, len(sprites))
            looked_at.append(content)
            sprites.append(sprite)
    return Evidence(
        exhibits=runs,
        survivals={e.name: Survival.of(e.run) for e in runs},
        disparities={
            e.name: ClassDisparity.of(e.run, e.data.labels, e.data.class_names)
            for e in runs
            if e.data is not None
        },
        shifts=_shifts(runs, progress),
        tunings=_tunings(runs, progress),
        surfaces=_surfaces(runs, surface_images, points, progress),
        costs=_costs(runs),
        comparison=_comparison(runs),
        neurons=tuple(looked_at),
        gallery=album,
        sprites=tuple(sprites),
        published=theirs,
        published_by=published if isinstance(published, str) else "",
        outcomes=tuple(outcomes),
    )


def _shifts(
    exhibits: Sequence[Exhibit], progress: bool | None
) -> dict[str, tuple[ActivationShift, str]]:
    found = {}
    for e in track(exhibits, "activation shift", progress):
        attack = e.analysed()
        saved = e.saved(attack) if attack else None
        if e.guided is None or e.data is None or attack is None or saved is None:
            continue
        positions, x = saved
        if len(positions):
            part = e.data[positions]
            guided = e.guided
            shift = activation_shift(
                guided.model, guided.ranking, guided.keep, part.images[:], x, part.labels
            )
            found[e.name] = (shift, attack)
    return found


def _tunings(exhibits: Sequence[Exhibit], progress: bool | None) -> dict[str, tuple[Tuning, int]]:
    found = {}
    for e in exhibits:
        if e.guided is not None and e.data is not None:
            guided, noise = e.guided, e.guided.noise
            tuning = tune(
                guided.model,
                guided.ranking,
                e.data,
                sigma=noise.sigma,
                samples=noise.samples,
                temperature=guided.temperature,
                seed=noise.seed,
                noise=noise.kind,
                progress=progress,
            )
            found[e.name] = (tuning, guided.keep)
    return found


def _surfaces(
    exhibits: Sequence[Exhibit], count: int, points: int, progress: bool | None
) -> dict[str, LossSurface]:
    """Of the first images that every run gets right when clean."""
    usable = [e for e in exhibits if e.defense is not None and e.data is not None]
    if not usable or count < 1:
        return {}
    right = torch.stack([e.run.clean.robust for e in usable]).all(0).nonzero().flatten()[:count]
    found = {}
    for e in usable:
        if len(right) and e.data is not None and e.defense is not None:
            part = e.data[right]
            found[e.name] = loss_surface(
                e.defense,
                part.images[:],
                part.labels,
                eps=e.eps,
                points=points,
                seed=int(e.run.settings["seed"]),
                progress=progress,
            )
    return found


def _costs(exhibits: Sequence[Exhibit]) -> dict[str, Cost]:
    """The time of a prediction over the base model's, where all runs have the same base."""
    usable = [e for e in exhibits if e.base is not None and e.data is not None]
    bases = {identity(e.base) for e in usable if e.base is not None}
    if len(bases) != 1:
        return {}
    first = usable[0]
    assert first.base is not None
    assert first.data is not None
    images = first.data.images[:SPEED_BATCH]
    others = {e.name: e.defense for e in usable if e.defense is not None and not e.undefended}
    measured = cost(first.base, others, images, batches=(len(images),), rounds=SPEED_ROUNDS)
    base, *rows = measured.rows
    found = {row.defense: row for row in rows}
    return {e.name: base if e.undefended else found[e.name] for e in usable}


def _comparison(exhibits: Sequence[Exhibit]) -> Comparison | None:
    rankings = {e.name: e.guided.ranking for e in exhibits if e.guided is not None}
    shapes = {(r.layer, r.scores.shape) for r in rankings.values()}
    if len(rankings) < 2 or len(shapes) > 1:
        return None
    data = next((e.data for e in exhibits if e.data is not None), None)
    return compare(rankings, class_names=data.class_names if data else None)
