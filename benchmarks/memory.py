"""Peak memory of ranking ten times as many images, each time in a process of its own."""

import resource
import subprocess
import sys
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.row import AtMost, Row
from igdefense import Data, leave_one_out, load_model

LAYER = "layer4"


def memory(few: int = 2000, many: int = 20_000, rounds: int = 3) -> list[Row]:
    measured = [peak_of_ranking(many) / peak_of_ranking(few) for _ in range(rounds)]
    what = f"peak memory of LO-IR at {LAYER}, {many} images"
    return [Row.of(what, f"{few} images", measured, AtMost(1.1))]


def peak_of_ranking(images: int) -> int:
    """The peak of a new process that ranks so many images, in KB."""
    command = [sys.executable, "-m", "benchmarks.memory", str(images)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(ran.stdout)


class Synthetic:
    """Images that exist only while they are looked at."""

    BLOCK = 100

    def __init__(self, images: int) -> None:
        self.images = images

    @property
    def shape(self) -> torch.Size:
        return torch.Size((self.images, 3, 32, 32))

    def __len__(self) -> int:
        return self.images

    def __getitem__(self, index: slice | Tensor | list[int], /) -> Tensor:
        positions = torch.arange(self.images)[index]
        out = torch.empty(len(positions), *self.shape[1:])
        for block in (positions // self.BLOCK).unique().tolist():
            rng = torch.Generator().manual_seed(block)
            drawn = torch.rand(self.BLOCK, *self.shape[1:], generator=rng)
            here = positions // self.BLOCK == block
            out[here] = drawn[positions[here] % self.BLOCK]
        return out


def rank(images: int) -> None:
    """Rank that many synthetic images, with the classes in turn."""
    data = Data(Synthetic(images), torch.arange(images) % 10, list("0123456789"))
    leave_one_out(load_model("embedded"), data, LAYER, progress=False)


def peak() -> int:
    """This process's peak resident memory, in KB."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would start from the peak of the process that started us
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    rank(int(sys.argv[1]))
    print(peak())
