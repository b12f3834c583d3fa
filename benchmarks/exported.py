"""The exported defense against the exported base model, in ONNX Runtime and in torch.export."""

import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.clock import Work, ratios
from benchmarks.passes import probe
from benchmarks.row import Row
from igdefense import defend, export, leave_one_out, load_data, load_exported, load_model

LAYER = "layer4"
FILES = {"ONNX Runtime": ".onnx", "torch.export": ".pt2"}


def exported(batches: tuple[int, ...] = (1, 32), rounds: int = 5, calls: int = 10) -> list[Row]:
    """Latency of one call, and what the graph costs or saves beside PyTorch's own calls."""
    model, test = load_model("embedded"), load_data("embedded:test")
    ranking = leave_one_out(model, probe(100), LAYER, progress=False)
    noisy, plain = (defend(model, ranking, keep=16, sigma=sigma) for sigma in (4 / 255, 0.0))
    rows, shown = list[Row](), test.images[:3]
    for runtime, suffix in FILES.items():
        base, one, none = (through_file(net, suffix, shown) for net in (model, noisy, plain))
        pairs = (
            ("exported defense, one noise sample", one, "exported base", base),
            ("exported defense, no smoothing", none, "exported base", base),
            ("exported defense, one noise sample", one, "the same in PyTorch", noisy),
        )
        for batch in batches:
            images = test.images[:batch]
            many = calls * 10 if batch == 1 else calls
            for what, net, against, other in pairs:
                works = asked(net, images), asked(other, images)
                measured = ratios(*works, rounds=rounds, calls=many)
                rows.append(Row.of(f"{what}, {runtime}, batch {batch}", against, measured))
    return rows


def through_file(net: nn.Module, suffix: str, images: Tensor) -> nn.Module:
    """The net as its exported file computes it."""
    with tempfile.TemporaryDirectory() as folder:
        path = export(net, Path(folder) / f"graph{suffix}", images=images).path
        return load_exported(path, trust=True)


def asked(model: nn.Module, images: Tensor) -> Work:
    """A call on those images, without gradients."""

    def work() -> None:
        with torch.no_grad():
            model(images)

    return work
