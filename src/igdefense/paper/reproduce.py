"""Every table and figure of the paper by name, and one function that runs it."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from igdefense.errors import SettingError
from igdefense.paper import looks, sweeps, tables
from igdefense.paper.bench import Bench
from igdefense.paper.estimate import Plan, estimate
from igdefense.paper.missing import advice, missing
from igdefense.paper.outcome import Outcome, Row
from igdefense.paper.scale import Scale
from igdefense.running.pool import Backend
from igdefense.verdicts.statistics import Share

log = logging.getLogger(__name__)
SMALL = "Suite quick has small budgets: these accuracies are no evidence of robustness."


@dataclass(frozen=True)
class Experiment:
    """A table or figure: what it shows, and how its rows are made."""

    what: str
    rows: Callable[[Bench], list[Row]]


EXPERIMENTS: dict[str, Experiment] = {
    "cifar10-rn18": Experiment("Table 1: both rankings on ResNet18, CIFAR-10", tables.headline),
    "cifar10-wrn": Experiment("Table 2: on WideResNet-34-10, CIFAR-10", tables.headline),
    "cifar100": Experiment("Table 3: on CIFAR-100", tables.headline),
    "imagenet": Experiment("Table 4: on ImageNet-1k, ResNet50", tables.headline),
    "rivals": Experiment("Table 5: against HD, SODEF and CAAA", tables.rivals),
    "rivals-extended": Experiment("Table 5 attack by attack", tables.rivals_extended),
    "ablation": Experiment("Table 6: passes, masks, smoothing", tables.ablation),
    "activation-shift": Experiment("Figure 2 C, D: neurons under attack", looks.shift),
    "sensitivity-k": Experiment("Figure: neurons kept", sweeps.sensitivity_k),
    "sensitivity-layer": Experiment("Figure: layer masked", sweeps.sensitivity_layer),
    "smoothing": Experiment("Figure: sigma, samples, temperature", sweeps.smoothing),
    "probe-size": Experiment("Figure: images to rank by", sweeps.probe_size),
    "attack-steps": Experiment("Figure: steps of the attack", sweeps.attack_steps),
    "gradient-masking": Experiment(
        "Table: AutoAttack, a stronger one, Square", tables.gradient_masking
    ),
    "eps": Experiment("Table: AutoAttack at 4, 8, 16, 32 / 255", tables.eps),
    "loss-surface": Experiment("Figure: the loss over the eps-ball", looks.surface),
    "class-disparity": Experiment("Table: best and worst classes", tables.class_disparity),
    "efficiency": Experiment("Table: time to rank", sweeps.efficiency),
}


def reproduce(
    name: str,
    scale: Scale,
    out: Path,
    *,
    seed: int = 0,
    workers: int = 1,
    backend: Backend | None = None,
    store: str | Path | None = None,
    device: str = "cpu",
) -> Outcome:
    """Run one table or figure; `OUT/NAME.json` holds it, and the same call resumes.

    What is missing is told before any work; so is the time, except at the embedded scale.
    """
    if name not in EXPERIMENTS:
        raise SettingError(
            f"The paper has no {name!r}; `igd reproduce --list` names {', '.join(EXPERIMENTS)}."
        )
    bench = Bench(
        scale, out, seed=seed, workers=workers, backend=backend, store=store, device=device
    )
    lacking, hint = missing(name, bench), advice(name, bench)
    if lacking:
        told = "; ".join([*lacking, *([hint] if hint else [])])
        raise SettingError(f"{name} at the scale {scale.name} needs {told}.")
    experiment = EXPERIMENTS[name]
    if scale.name != "embedded":
        if hint:
            log.warning("%s: %s.", name, hint)
        plan = Plan(bench)
        experiment.rows(plan)
        log.info("%s: %s", name, estimate(plan, bench))
    started = time.monotonic()
    rows = experiment.rows(bench)
    notes = []
    if scale.name != "paper":
        notes.append(f"The {scale.model} model stands in for the paper's base models.")
    if scale.suite == "quick" and any(isinstance(c, Share) for row in rows for c in row.values()):
        notes.append(SMALL)
    settings = bench.settings | {"seconds": round(time.monotonic() - started)}
    outcome = Outcome(name, experiment.what, settings, tuple(rows), tuple(notes))
    outcome.save(out / f"{name}.json")
    return outcome
