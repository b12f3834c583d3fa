"""Two workers against one, and Ray against local processes, on the same units of work.

What is timed is a round of attacks in a pool whose workers have started and loaded everything in a
round before; each time in a fresh store.
"""

import os
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.row import AtLeast, AtMost, Row
from igdefense import Local, Ray, load_data, load_model
from igdefense.attacks.apgd import APGD
from igdefense.attacks.suites import Column
from igdefense.attacks.threat import Linf
from igdefense.running.pool import Backend
from igdefense.verdicts.job import job_of
from igdefense.verdicts.remote_store import store_at
from igdefense.verdicts.units import Setting, tasks

SECONDS = 12.0  # a unit's length, about


def spread(
    units: int = 6, images: int = 16, rounds: int = 3, seconds: float = SECONDS
) -> list[Row]:
    """One process, two processes and two Ray workers, one thread each."""
    torch.set_num_threads(1)
    os.environ.setdefault("RAY_worker_niceness", "0")  # as nice as local processes
    steps = max(1, round(seconds / _second_per_step(images)))
    gains, overheads = [], []
    for _ in range(rounds):
        one = _timed(Local(1), units, images, steps)
        two = _timed(Local(2), units, images, steps)
        with Ray("local", workers=2) as cluster:
            far = _timed(cluster, units, images, steps)
        gains.append(one / two)
        overheads.append(far / two)
    what = f"{units} units of {one / units:.0f} s"
    return [
        Row.of(f"{what}: throughput, 2 workers", "1 worker", gains, AtLeast(1.8)),
        Row.of(f"{what}: time, 2 Ray workers", "2 local processes", overheads, AtMost(1.1)),
    ]


def _second_per_step(images: int, few: int = 10, many: int = 60) -> float:
    """What one more step costs: a worker's first steps are slow."""
    short, long = (_timed(Local(1), 1, images, steps) for steps in (few, many))
    return (long - short) / (many - few)


def _timed(backend: Backend, units: int, images: int, steps: int) -> float:
    """Seconds for so many units, once the workers are there."""
    model, data = load_model("embedded"), load_data("embedded:test", n=units * images)
    column = Column(name="apgd", attack=APGD(threat=Linf(8 / 255), steps=steps, best="highest"))
    with tempfile.TemporaryDirectory() as scratch:
        store = store_at(Path(scratch))
        setting = Setting(model, model, data, (column,), 0, store)
        everyone = range(len(data))
        with backend.pool(job_of(setting)) as pool:
            for _ in pool.results(tasks(everyone, [None], images, 2)):
                pass
            work = tasks(everyone, [column.name], images, 1)
            started = time.perf_counter()
            for _ in pool.results(work):
                pass
            return time.perf_counter() - started
