"""Two workers against one, and Ray against local processes, on the same units of work.

Each run has a fresh store. What workers take to start (imports, loading) is measured apart, by a
unit that does nothing, and taken off: long runs pay it once.
"""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.row import AtLeast, AtMost, Row
from igdefense import Local, Ray, evaluate, load_data, load_model
from igdefense.attacks.apgd import APGD
from igdefense.attacks.suites import Column
from igdefense.attacks.threat import Linf
from igdefense.running.pool import Backend, Job

EPS = 8 / 255
SECONDS = 10.0  # a unit's length, at least


def spread(units: int = 6, images: int = 16, rounds: int = 1) -> list[Row]:
    """One process, two processes and two Ray workers, one thread each."""
    torch.set_num_threads(1)
    os.environ.setdefault("RAY_worker_niceness", "0")  # as nice as local processes
    steps = _steps(images)
    gains, overheads = [], []
    for _ in range(rounds):
        one = _timed(Local(1), units, images, steps)
        two = _timed(Local(2), units, images, steps)
        with Ray("local", workers=2) as cluster:
            far = _timed(cluster, units, images, steps)
        gains.append(one / two)
        overheads.append(far / two)
    what = f"{units} units of {images} images, {steps} steps"
    return [
        Row.of(f"{what}: throughput, 2 workers", "1 worker", gains, AtLeast(1.8)),
        Row.of(f"{what}: time, Ray, 2 workers", "2 local processes", overheads, AtMost(1.1)),
    ]


def _steps(images: int) -> int:
    """So many steps of APGD that a unit takes `SECONDS` on one thread."""
    probe = 5
    with tempfile.TemporaryDirectory() as scratch:
        seconds = _clock(lambda: _run(Local(1), 1, images, probe, Path(scratch)))
    return max(probe, round(probe * SECONDS / seconds))


def _timed(backend: Backend, units: int, images: int, steps: int) -> float:
    with tempfile.TemporaryDirectory() as scratch:
        whole = _clock(lambda: _run(backend, units, images, steps, Path(scratch)))
    return whole - _start(backend)


def _run(backend: Backend, units: int, images: int, steps: int, scratch: Path) -> None:
    attack = APGD(threat=Linf(EPS), steps=steps, best="highest")
    evaluate(
        load_model("embedded"),
        load_data("embedded:test", n=units * images),
        suite=(Column(name="apgd", attack=attack),),
        eps=EPS,
        batch_size=images,
        backend=backend,
        out=scratch / "run",
        progress=False,
    )


def _start(backend: Backend) -> float:
    """What it takes until workers work. Ray's stay: theirs are ended first."""
    if isinstance(backend, Ray):
        backend.close()
    if backend == Local(1):
        return 0.0

    def start() -> None:
        with backend.pool(Job(nothing, None)) as pool:
            list(pool.results(range(2)))

    return _clock(start)


def nothing(_: None, __: int) -> None:
    """A unit without work."""


def _clock(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
