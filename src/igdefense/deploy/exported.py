"""Exported: a classifier from an exported file, for `igd predict` and for trying it out."""

import json
from pathlib import Path
from typing import Any

from torch import nn

from igdefense.deploy.onnx_file import OnnxGraph
from igdefense.deploy.torch_file import TorchGraph
from igdefense.errors import ModelError
from igdefense.types import Images, Logits

SUFFIXES = (".onnx", ".pt2")


class Exported(nn.Module):
    """A classifier that runs as one graph: [0, 1] pixels in, logits out, without gradients.

    `about` is what the exporting side wrote down: settings, and the base model's fingerprint.
    """

    def __init__(self, graph: OnnxGraph | TorchGraph) -> None:
        super().__init__()
        self._graph = graph
        try:
            about = json.loads(graph.about)
        except ValueError:
            about = {}
        self.about: dict[str, Any] = about if isinstance(about, dict) else {}
        self.random = bool(self.about.get("random", False))
        self.eval()

    @property
    def size(self) -> tuple[int, ...]:
        """Channels, height and width of the images it takes."""
        return tuple(self._graph.shape)

    def forward(self, images: Images) -> Logits:
        if tuple(images.shape[1:]) != self.size:
            came, wanted = (" x ".join(map(str, s)) for s in (images.shape[1:], self.size))
            raise ModelError(f"The exported graph takes images of {wanted}; these are {came}.")
        return self._graph(images)


def load_exported(path: str | Path, *, seed: int | None = None, trust: bool = False) -> Exported:
    """A file made by `export`; a .pt2 can hold code, so it is read only if its maker is trusted.

    Its noise is new in every process unless a seed is given.
    """
    path = Path(path)
    if path.suffix == ".onnx":
        return Exported(OnnxGraph(path, seed))
    if path.suffix != ".pt2":
        raise ModelError(
            f"{path} is no exported model; expected a name in {' or '.join(SUFFIXES)}."
        )
    if not trust:
        raise ModelError(
            f"{path} is a torch.export archive, and loading one can run code that is in it: if you "
            "trust its maker, pass --trust (in Python, trust=True). An .onnx file needs no trust."
        )
    return Exported(TorchGraph(path, seed))
