"""A traced model as a torch.export archive, and torch to run it."""

import zipfile
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from igdefense.deploy.deployed import quietly
from igdefense.errors import ModelError
from igdefense.types import Images

ABOUT = "igdefense.json"


def write_archive(program: ExportedProgram, about: str, path: Path) -> None:
    """One file, weights inside, with `about` beside them."""
    with quietly(), path.open("wb") as file:
        torch.export.save(program, file, extra_files={ABOUT: about})


class TorchGraph:
    """A torch.export archive; without a seed its noise comes from torch's own generator.

    Loading an archive can run code that is in it.
    """

    def __init__(self, path: Path, seed: int | None = None) -> None:
        extra = {ABOUT: ""}
        if not path.is_file():
            raise ModelError(f"There is no file {path}.")
        if not zipfile.is_zipfile(path):
            raise ModelError(f"{path} is not a torch.export archive, or is damaged.")
        try:
            with quietly(), path.open("rb") as file:
                program = torch.export.load(file, extra_files=extra)
        except Exception as error:  # many kinds, by what is wrong with the archive
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
            raise ModelError(
                f"{path} cannot be read as a torch.export archive ({reason})."
            ) from error
        self.about = extra[ABOUT] or "{}"
        self.module: nn.Module = program.module()
        (name,) = program.graph_signature.user_inputs
        (node,) = (node for node in program.graph.nodes if node.name == name)
        self.shape = tuple(node.meta["val"].shape[1:])

        self._state = None if seed is None else torch.Generator().manual_seed(seed).get_state()

    def __call__(self, images: Images) -> Tensor:
        if self._state is None:
            return self.module(images)
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._state)
            logits: Tensor = self.module(images)
            self._state = torch.get_rng_state()
        return logits
