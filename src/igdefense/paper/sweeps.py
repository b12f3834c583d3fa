"""The paper's sensitivity figures: one setting varied, the rest as they are."""

import time
from collections.abc import Iterable
from typing import Any

from igdefense.attacks.apgd import APGD
from igdefense.attacks.attack import Attack
from igdefense.attacks.pgd import FGSM
from igdefense.attacks.suites import Column
from igdefense.attacks.threat import Linf
from igdefense.layers import layers
from igdefense.paper.bench import Bench
from igdefense.paper.outcome import Row
from igdefense.paper.tables import auto_attack, contenders

METHODS = ("CD-IR", "LO-IR")


def sensitivity_k(bench: Bench) -> list[Row]:
    """How many neurons are kept."""
    width = bench.ranking("LO-IR").neurons
    steps = sorted({max(1, round(width * share)) for share in (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)})
    return _sweep(bench, "keep", ({"keep": k} for k in steps))


def sensitivity_layer(bench: Bench) -> list[Row]:
    """Which of the model's stages is masked."""
    found = layers(bench.model, bench.data.images[:1].to(bench.device))
    whole = dict(bench.model.named_children())
    stages = [
        layer for layer in found if layer.name in whole and list(whole[layer.name].children())
    ]
    share = bench.scale.keep / bench.ranking("LO-IR").neurons
    settings = ({"layer": s.name, "keep": max(1, round(share * s.neurons))} for s in stages)
    return _sweep(bench, "layer", settings)


def smoothing(bench: Bench) -> list[Row]:
    """Noise, number of samples and temperature of the first pass."""
    rows = _sweep(bench, "sigma", ({"sigma": s / 255} for s in (1, 2, 4, 8, 16)))
    rows += _sweep(bench, "samples", ({"samples": n} for n in (1, 2, 4, 8, 16)))
    temperatures = (1e-4, 1e-3, 0.01, 0.1, 1, 10)
    return rows + _sweep(bench, "temperature", ({"temperature": t} for t in temperatures))


def probe_size(bench: Bench) -> list[Row]:
    """How many images of each class rank the neurons."""
    counts = bench.probe.labels.bincount(minlength=len(bench.probe.class_names))
    most = int(counts.min())
    sizes = sorted({max(1, round(most * share)) for share in (0.1, 0.25, 0.5, 1)})
    return _sweep(bench, "per_class", ({"per_class": size} for size in sizes))


def attack_steps(bench: Bench) -> list[Row]:
    """One step of FGSM, then APGD with ever more steps."""
    threat = Linf(bench.scale.eps)
    most = 100 if bench.scale.suite == "quick" else 1000
    attacks: dict[int, Attack] = {1: FGSM(threat=threat)}
    attacks |= {steps: APGD(threat=threat, steps=steps) for steps in (5, 20, 50, 100, 500, 1000)}
    columns = {
        steps: Column(name="FGSM" if steps == 1 else f"APGD-{steps}", attack=attack)
        for steps, attack in attacks.items()
        if steps <= most
    }
    runs = {
        name: bench.run(f"{name}, steps", defense, suite=tuple(columns.values()))
        for name, defense in contenders(bench).items()
    }
    rows: list[Row] = []
    for steps, column in columns.items():
        about: Row = {"attack": column.name, "steps": str(steps)}
        rows.append(about | {name: run.verdicts[column.name].share for name, run in runs.items()})
    return rows


def efficiency(bench: Bench) -> list[Row]:
    """How long the rankings take, nothing cached in between."""
    rows: list[Row] = []
    for method in METHODS:
        started = time.monotonic()
        ranking = bench.rank_anew(method)
        seconds = time.monotonic() - started
        about = f"{ranking.neurons} neurons, {len(bench.probe)} images"
        rows.append({"defense": method, "minutes": round(seconds / 60, 3), "of": about})
    return rows


def _sweep(bench: Bench, name: str, settings: Iterable[dict[str, Any]]) -> list[Row]:
    """Clean accuracy and AutoAttack for both rankings at each setting."""
    rows = []
    for setting in settings:
        row: Row = {name: _shown(name, setting[name])}
        for method in METHODS:
            run = bench.run(
                f"{method}, {name} {row[name]}",
                bench.masked(method, **setting),
                suite=(auto_attack(bench, bench.scale.eps),),
            )
            row[f"{method} clean"] = run.clean.share
            row[f"{method} AA"] = run.verdicts["autoattack"].share
        rows.append(row)
    return rows


def _shown(name: str, value: Any) -> str:
    return f"{value * 255:g}/255" if name == "sigma" else str(value)
