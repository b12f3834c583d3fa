"""The evaluation against itself: cascade, a second ranking, a resumed run; AutoAttack's reference.

Each run is a process of its own (`python -m benchmarks.evaluation OUT MODE KEEP IMAGES`); its
processor time from start to end is counted. Budgets are a tenth of the paper's, in its proportions;
AutoAttack's are whole.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from pyautoattack import AutoAttack

from benchmarks.clock import seconds
from benchmarks.row import AtMost, Row
from igdefense import Run, defend, evaluate, leave_one_out, load_data, load_model

EPS = 8 / 255
TENTH = {"steps": 10, "fab_steps": 10, "square_queries": 500, "rays_queries": 1000}


def evaluation(images: int = 64) -> list[Row]:
    """One round: these are minutes, not milliseconds."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        full = _timed(folder / "one" / "full", "full", 16, images)
        second = _timed(folder / "one" / "second", "full", 24, images)
        cascade = _timed(folder / "two" / "cascade", "cascade", 16, images)
        same = torch.equal(
            Run.load(folder / "one" / "full").worst_case.robust,
            Run.load(folder / "two" / "cascade").worst_case.robust,
        )
        resumed = _resumed(folder / "three" / "run", full, images)
    verdicts = "same verdicts" if same else "OTHER VERDICTS"
    return [
        Row.of(f"cascade IW-WC, {verdicts}", "full", [cascade / full], AtMost(0.55)),
        Row.of("second ranking on the same base", "the first", [second / full], AtMost(0.6)),
        Row.of("resume after a kill at half time", "whole run", [resumed / full], AtMost(0.6)),
    ]


def autoattack(images: int = 64) -> list[Row]:
    """AutoAttack standard with two one-thread workers against the reference with two threads."""
    model, data = load_model("embedded"), load_data("embedded:test", n=images)
    torch.set_num_threads(2)
    reference = AutoAttack(model, norm="Linf", eps=EPS, version="standard", device="cpu")
    theirs = seconds(
        lambda: reference.run_standard_evaluation(data.images[:], data.labels, batch_size=images)
    )
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "run"
        ours = seconds(
            lambda: evaluate(
                model, data, suite="autoattack", eps=EPS, workers=2, out=out, progress=False
            )
        )
    what = f"AutoAttack standard, {images} images, 2 workers"
    return [Row.of(what, "pyautoattack, 2 threads", [ours / theirs], AtMost(0.75))]


def _start(out: Path, mode: str, keep: int, images: int) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "benchmarks.evaluation", out, mode, keep, images]
    return subprocess.Popen(list(map(str, command)))


def _timed(out: Path, mode: str, keep: int, images: int) -> float:
    """Processor seconds, which other jobs on the machine change less than they change the clock."""
    _, status, used = os.wait4(_start(out, mode, keep, images).pid, 0)
    if status != 0:
        raise RuntimeError(f"The {mode} run failed.")
    return used.ru_utime + used.ru_stime


def _resumed(out: Path, whole: float, images: int) -> float:
    """What the same command takes after a kill at half time."""
    process, half = _start(out, "full", 16, images), round(whole / 2)
    resource.prlimit(process.pid, resource.RLIMIT_CPU, (half, half))  # then the system kills it
    if process.wait() == 0:
        raise RuntimeError("The run that was to be killed had already ended.")
    return _timed(out, "full", 16, images)


def _child(out: Path, mode: str, keep: int, images: int) -> None:
    model = load_model("embedded")
    ranking = leave_one_out(model, load_data("embedded:probe", n=200), "layer4", progress=False)
    evaluate(
        defend(model, ranking, keep=keep),
        load_data("embedded:test", n=images),
        base=model,
        suite="paper",
        eps=EPS,
        mode="cascade" if mode == "cascade" else "full",
        budget=TENTH,
        batch_size=16,
        out=out,
        progress=False,
    )


if __name__ == "__main__":
    _child(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
