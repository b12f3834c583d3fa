"""How long each table of the paper takes, from measured unit times.

`python -m benchmarks.estimate measure` times the attacks on the embedded model, with a tenth of the
paper's budgets on a few images, and writes `benchmarks/unit-times.json`; `python -m
benchmarks.estimate` prints the table of docs/scaling.md from that file. Which units a table needs
is counted by running the code of `igd reproduce` with evaluations that only note what was asked.
"""

import json
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from igdefense import Ranking, Run, Verdict, defend, evaluate, leave_one_out, load_data, load_model
from igdefense.attacks.price import price
from igdefense.attacks.suites import Column, budget_of, the_nine
from igdefense.attacks.threat import Linf
from igdefense.expert.suite import columns_of
from igdefense.models.architectures import build
from igdefense.models.fingerprint import hash_text
from igdefense.paper import tables
from igdefense.paper.bench import SCALES, Bench
from igdefense.paper.published import tables as published
from igdefense.paper.reproduce import EXPERIMENTS
from igdefense.rankings.controls import random_for
from igdefense.verdicts.judge import is_random
from igdefense.verdicts.remote_store import store_at
from igdefense.verdicts.units import Setting

FILE = Path(__file__).with_name("unit-times.json")
TENTH = {"steps": 10, "fab_steps": 10, "square_queries": 500, "rays_queries": 1000}
EPS = 8 / 255
SIZES = {"RN18": ("resnet18", 32), "WRN-34-10": ("wrn-34-10", 32), "RN50": ("resnet50", 224)}
IMAGES = {"imagenet": 5_000}  # RobustBench's; 10,000 elsewhere
NO_RUNS = ("activation-shift", "loss-surface", "efficiency")
GPU = 300.0  # times as fast as one core: an assumption, to be replaced by a measurement of yours
INFERENCE = {"Hedge": 45.0, "SODEF": 1.1, "AntiAdversary": 6.1, "Smoothed": 1.0}  # `igd cost`


@dataclass(frozen=True)
class Asked:
    """A unit that a table needs: a column on one defense, whatever runs share it."""

    column: Column
    inference: float  # of what is attacked, in forward passes
    random: bool


class Noting(Bench):
    """Notes the distinct units of the runs asked for, and answers with an empty run."""

    def __init__(self) -> None:
        scale = replace(SCALES["embedded"], suite="paper", n=4)
        super().__init__(scale, Path("nowhere"))
        self.units: dict[str, Asked] = {}

    def ranking(
        self, method: str, layer: str | None = None, per_class: int | None = None
    ) -> Ranking:
        """Drawn, not made: which units there are does not depend on it."""
        seed = int(hash_text(method, per_class), 16) % 2**31
        return random_for(self.model, self.data.images[:2], layer or self.scale.layer, seed)

    def run(self, name: str, defense: nn.Module, **asked: Any) -> Run:
        chosen, eps = asked.get("suite") or "paper", asked.get("eps") or self.scale.eps
        columns = columns_of(chosen, Linf(eps)) if isinstance(chosen, str) else tuple(chosen)
        store = store_at("memory://nowhere")
        setting = Setting(defense, self.model, self.data, columns, self.seed, store)
        for column in columns:
            target = setting.target(column)
            passes = 1.0 if target is self.model else INFERENCE.get(type(target).__name__, 2.0)
            self.units[setting.unit(column)] = Asked(column, passes, is_random(target))
        right = torch.ones(len(self.data), 1, dtype=torch.bool)
        verdicts = {column.name: Verdict.on_all(column.name, right) for column in columns}
        return Run(Verdict.on_all("clean", right), verdicts, {"seed": 0})


def measure(images: int = 8) -> None:
    """Seconds for a pass over an image, attack by attack, one thread, on the embedded model."""
    torch.set_num_threads(1)
    model, data = load_model("embedded"), load_data("embedded:test", n=images)
    ranking = leave_one_out(model, load_data("embedded:probe", n=200), "layer4", progress=False)
    defense = defend(model, ranking, keep=16)
    wall, cpu = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as scratch:
        run = evaluate(
            defense,
            data,
            base=model,
            suite="paper",
            eps=EPS,
            budget=TENTH,
            batch_size=images,
            out=Path(scratch) / "run",
            progress=False,
        )
    # Other jobs may have had a part of the core: a thread alone would have taken its CPU time.
    share = (time.process_time() - cpu) / (time.perf_counter() - wall)
    seconds = {name: share * spent / images for name, spent in run.seconds.items()}
    rates = {}
    for column in the_nine(Linf(EPS), budget_of("paper", TENTH)):
        on_base = column.target == "base"
        passes = price(column, random=not on_base, inference=1 if on_base else 2)
        rates[column.name] = seconds[column.name] / passes
    record = {
        "model": "embedded (resnet18-w16)",
        "images": images,
        "clean %": 100 * run.clean.share.value,
        "worst case %": 100 * run.worst_case.share.value,
        "budget": "a tenth of the paper's",
        "threads": 1,
        "torch": torch.__version__,
        "CPU seconds an image and pass": rates,
        "CPU seconds an image": seconds,
    }
    FILE.write_text(json.dumps(record, indent=1) + "\n")


def estimate() -> list[str]:
    """Rows of a Markdown table, one for each table or figure that evaluates."""
    record = json.loads(FILE.read_text())
    rates: dict[str, float] = record["CPU seconds an image and pass"]
    work = {name: _flops(*size) for name, size in SIZES.items()}
    unit = _flops("resnet18-w16", 32)
    lines = [
        "| `igd reproduce` | base models | columns to run | images | core-hours | 8 GPUs |",
        "|---|---|---|---|---|---|",
    ]
    bench = Noting()
    for name, experiment in EXPERIMENTS.items():
        if name in NO_RUNS:
            continue
        bench.units = {}
        with patch.object(tables, "cost", _no_cost):  # a time of its own, and short
            experiment.rows(bench)
        seconds = sum(_seconds(asked, rates) for asked in bench.units.values())
        bases, n = _bases(name), IMAGES.get(name, 10_000)
        hours = sum(seconds * n * work[_kind(base)] / unit for base in bases) / 3600
        units = f"{len(bench.units)} x {len(bases)}"
        kinds = ", ".join(sorted({_kind(base) for base in bases}))
        lines.append(
            f"| {name} | {len(bases)} ({kinds}) | {units} | {n:,} | {hours:,.0f} | "
            f"{_spoken(hours / GPU / 8)} |"
        )
    return lines


def _seconds(asked: Asked, rates: dict[str, float]) -> float:
    """For an image: the rate of the measured attack most like it, times the passes it makes."""
    kind = type(asked.column.attack).__name__
    like = {"AutoAttack": "autoattack", "RayS": "rays"}.get(kind, "apgd-ce")
    if kind == "AutoAttack" and asked.column.samples > 1:
        like = "apgd-eot"
    mine = like if asked.inference > 1 and like in rates else f"transfer-{like}"
    return rates[mine] * price(asked.column, random=asked.random, inference=asked.inference)


def _bases(name: str) -> list[str]:
    found = published().get(name)
    rows = found.rows if found else ()
    return list(dict.fromkeys(str(row["base"]) for row in rows if "base" in row)) or ["any RN18"]


def _kind(base: str) -> str:
    return next((kind for kind in SIZES if base.endswith(kind)), "RN18")


def _flops(arch: str, size: int) -> float:
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        build(arch).eval()(torch.rand(1, 3, size, size))
    return float(counter.get_total_flops())


def _spoken(hours: float) -> str:
    return f"{hours:.1f} hours" if hours < 100 else f"{hours / 24:,.0f} days"


def _no_cost(_: nn.Module, defenses: dict[str, nn.Module], *__: object, **___: object) -> Any:
    return SimpleNamespace(rows=[SimpleNamespace(defense=name, ratio=1.0) for name in defenses])


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(*map(int, sys.argv[2:3]))
    print("\n".join(estimate()))
