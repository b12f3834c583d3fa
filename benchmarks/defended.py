"""The defended forward pass against the base model's."""

import torch
from torch import Tensor, nn

from benchmarks.clock import Work, ratios
from benchmarks.passes import probe
from benchmarks.row import AtMost, Row
from igdefense import defend, leave_one_out, load_data, load_model

LAYER = "layer4"


def defended(batch: int = 100, rounds: int = 9, calls: int = 10) -> list[Row]:
    """A batch, and one image alone, where the overhead of every call shows."""
    model, test = load_model("embedded"), load_data("embedded:test")
    ranking = leave_one_out(model, probe(100), LAYER, progress=False)
    plain = defend(model, ranking, keep=16, sigma=0)
    noisy = defend(model, ranking, keep=16, sigma=4 / 255, samples=1)
    many, single = test.images[:batch], test.images[:1]
    keys = list(range(batch))

    def row(what: str, one: Work, other: Work, calls: int, bar: AtMost | None) -> Row:
        measured = ratios(one, other, rounds=rounds, calls=calls)
        return Row.of(f"defended forward, {what}", "base forward", measured, bar)

    base, alone = forward(model, many), forward(model, single)
    few = calls * 10
    return [
        row(f"no smoothing, batch {batch}", forward(plain, many), base, calls, AtMost(1.15)),
        row("no smoothing, batch 1", forward(plain, single), alone, few, None),
        row(f"one noise sample, batch {batch}", forward(noisy, many), base, calls, AtMost(2.1)),
        row("one noise sample, batch 1", forward(noisy, single), alone, few, AtMost(1.9)),
        row(f"one keyed sample, batch {batch}", forward(noisy, many, keys), base, calls, None),
    ]


def forward(model: nn.Module, images: Tensor, *keys: list[int]) -> Work:
    """A call of the model on those images, without gradients."""

    def work() -> None:
        with torch.no_grad():
            model(images, *keys)

    return work
