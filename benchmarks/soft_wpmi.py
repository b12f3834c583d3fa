"""Soft-WPMI: all neurons at once against a plain loop over them, and the peak of a large one."""

import subprocess
import sys
from math import log

import torch
from torch import Tensor

from benchmarks.clock import ratios
from benchmarks.memory import peak
from benchmarks.row import AtLeast, AtMost, Row
from igdefense.rankings.clip_dissect import soft_wpmi as ours

GB = 2**20  # in KB


def soft_wpmi(rounds: int = 9, neurons: int = 512) -> list[Row]:
    cosines, activations = drawn(10_000, 10, neurons)
    gain = ratios(
        lambda: plain_loop(cosines, activations),
        lambda: ours(cosines, activations),
        rounds=rounds,
        calls=3,
    )
    what = f"soft-WPMI, {neurons} neurons, 10 classes, 10,000 images: speed-up"
    return [Row.of(what, "a loop over neurons", gain, AtLeast(5))]


def soft_wpmi_memory(images: int = 50_000, classes: int = 1000, neurons: int = 2048) -> list[Row]:
    """One process of its own, its peak with the arguments and torch itself."""
    command = [sys.executable, "-m", "benchmarks.soft_wpmi", *map(str, (images, classes, neurons))]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    what = f"peak of soft-WPMI, {neurons:,} neurons, {classes:,} classes, {images:,} images"
    return [Row.of(f"{what}: GB", "1 GB", [int(ran.stdout) / GB], AtMost(4))]


def drawn(images: int, classes: int, neurons: int) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(0)
    cosines = torch.rand(images, classes, generator=rng).mul_(0.1).add_(0.2)
    return cosines, torch.randn(images, neurons, generator=rng)


@torch.no_grad()
def plain_loop(cosines: Tensor, activations: Tensor, top: int = 100) -> Tensor:
    """The definition, neuron by neuron."""
    shares = torch.softmax(10 * cosines, dim=1)
    belief = (0.998 - torch.arange(top) / top * (0.998 - 0.97))[:, None]
    rows = []
    for neuron in range(activations.shape[1]):
        best = activations[:, neuron].topk(top).indices
        rows.append(torch.log(1 + belief * (shares[best] - 1) + 1e-7).sum(0))
    table = torch.stack(rows, dim=1)
    return table - (table.logsumexp(1, keepdim=True) - log(len(rows)))


if __name__ == "__main__":
    ours(*drawn(*map(int, sys.argv[1:4])))
    print(peak())
