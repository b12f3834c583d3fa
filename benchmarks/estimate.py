"""How long each table of the paper takes, from measured unit times.

`python -m benchmarks.estimate measure` times the attacks on the embedded model, with a tenth of the
paper's budgets on a few images, and writes `benchmarks/unit-times.json`; `python -m
benchmarks.estimate` prints the table of docs/scaling.md from that file. Which units a table needs
is counted from the plan that `igd reproduce` makes before it runs.
"""

import json
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from igdefense import defend, evaluate, leave_one_out, load_data, load_model
from igdefense.attacks.price import price
from igdefense.attacks.suites import Column, budget_of, the_nine
from igdefense.attacks.threat import Linf
from igdefense.models.architectures import build
from igdefense.paper.bench import Bench
from igdefense.paper.estimate import Plan
from igdefense.paper.published import tables as published
from igdefense.paper.reproduce import EXPERIMENTS
from igdefense.paper.scale import SCALES
from igdefense.verdicts.judge import is_random

FILE = Path(__file__).with_name("unit-times.json")
TENTH = {"steps": 10, "fab_steps": 10, "square_queries": 500, "rays_queries": 1000}
EPS = 8 / 255
SIZES = {"RN18": ("resnet18", 32), "WRN-34-10": ("wrn-34-10", 32), "RN50": ("resnet50", 224)}
IMAGES = {"imagenet": 5_000}  # RobustBench's; 10,000 elsewhere
GPU = 300.0  # times as fast as one core: an assumption, to be replaced by a measurement of yours
INFERENCE = {"Hedge": 45.0, "SODEF": 1.1, "AntiAdversary": 6.1, "Smoothed": 1.0}  # `igd cost`


@dataclass(frozen=True)
class Asked:
    """A unit that a table needs: a column on one defense, whatever runs share it."""

    column: Column
    inference: float  # of what is attacked, in forward passes
    random: bool


def asked_by(name: str) -> list[Asked]:
    """The distinct units of a table, as `igd reproduce` would run them with the paper's budgets."""
    bench = Bench(replace(SCALES["embedded"], suite="paper", n=4), Path("nowhere"))
    plan = Plan(bench)
    EXPERIMENTS[name].rows(plan)
    units = {}
    for defense, columns in plan.runs:
        for column in columns:
            target = bench.model if column.target == "base" else defense
            on_base = target is bench.model
            passes = 1.0 if on_base else INFERENCE.get(type(target).__name__, 2.0)
            key = (repr(column.attack), bench.model if on_base else defense)
            units[key] = Asked(column, passes, is_random(target))
    return list(units.values())


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
    for name in EXPERIMENTS:
        units = asked_by(name)
        if not units:
            continue
        seconds = sum(_seconds(asked, rates) for asked in units)
        bases, n = _bases(name), IMAGES.get(name, 10_000)
        hours = sum(seconds * n * work[_kind(base)] / unit for base in bases) / 3600
        kinds = ", ".join(sorted({_kind(base) for base in bases}))
        lines.append(
            f"| {name} | {len(bases)} ({kinds}) | {len(units)} x {len(bases)} | {n:,} | "
            f"{hours:,.0f} | {_spoken(hours / GPU / 8)} |"
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
    if hours < 1:
        return f"{60 * hours:.0f} minutes"
    return f"{hours:.1f} hours" if hours < 100 else f"{hours / 24:,.0f} days"


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(*map(int, sys.argv[2:3]))
    print("\n".join(estimate()))
