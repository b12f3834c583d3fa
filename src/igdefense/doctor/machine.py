"""The machine: devices, threads, disk, and what crashes on it."""

import os
import shutil
from pathlib import Path

import torch

from igdefense.doctor.finding import Finding
from igdefense.doctor.trial import tried

GB = 1e9
ISA = "ONEDNN_MAX_CPU_ISA"
# Small shapes pass where larger ones die, so a whole network is tried.
BF16 = """
import torch
from torch import nn
from igdefense.models import build
net, images = build("resnet18", 10).eval(), torch.rand(8, 3, 32, 32)
with torch.no_grad():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        net(images)
    net.bfloat16()(images.bfloat16())
    nn.Linear(512, 512).bfloat16()(torch.rand(512, 512).bfloat16())
"""
TORCHVISION = """
import torch, torchvision
from torchvision.ops import nms
nms(torch.rand(2, 4).cumsum(1), torch.rand(2), 0.5)
"""


def device() -> Finding:
    """What torch can compute on."""
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        return Finding("device", "ok", f"cpu and {', '.join(names)}")
    if torch.backends.mps.is_available():
        return Finding("device", "ok", "cpu and mps")
    return Finding("device", "ok", "cpu alone: full-size evaluations are slow, nothing else")


def threads() -> Finding:
    """How many cores there are, and how many torch takes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    used = torch.get_num_threads()
    says = f"torch uses {used} of {cores} cores"
    if cores and used < cores:
        asked = os.environ.get("OMP_NUM_THREADS")
        why = f"OMP_NUM_THREADS={asked} says so" if asked else "set OMP_NUM_THREADS for more"
        return Finding("threads", "ok", says, f"{why}; `igd evaluate --workers {cores}` fills them")
    return Finding("threads", "ok", says)


def bf16() -> Finding:
    """Whether bfloat16 works on this CPU: it can be advertised and still kill the process."""
    trial = tried(BF16)
    if trial.worked:
        return Finding("bf16", "ok", "works on this CPU; nothing here uses it by itself")
    todo = "stay with float32, which is what everything here uses"
    if trial.crashed and tried(BF16, {ISA: "AVX512_CORE_BF16"}).worked:
        todo += f"; with {ISA}=AVX512_CORE_BF16 in the environment it works"
    return Finding("bf16", "broken", str(trial.reason), todo)


def torchvision() -> Finding:
    """Whether torchvision is there with its operators; without them it breaks those who use it."""
    trial = tried(TORCHVISION)
    if trial.worked:
        return Finding("torchvision", "ok", "imports, and its operators run")
    if str(trial.reason).startswith("ModuleNotFoundError: No module named 'torchvision'"):
        return Finding("torchvision", "absent", "not installed; the core does not need it")
    todo = (
        "its compiled operators are of another torch: install torch and torchvision as a pair from "
        "the same index, or remove torchvision"
    )
    return Finding("torchvision", "broken", str(trial.reason), todo)


def disk(folder: Path, least: float = 2 * GB) -> Finding:
    """What is free where the units of work will be kept."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    says = f"{free / GB:.1f} GB free at {folder}"
    if not os.access(place, os.W_OK):
        return Finding("store", "broken", f"{place} is read-only", "choose another --store")
    if free < least:
        todo = f"choose a --store with {least / GB:.0f} GB or more, or make room"
        return Finding("store", "broken", says, todo)
    return Finding("store", "ok", says)
