"""Verify a finished run from its saved adversarial images alone."""

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from igdefense.attacks.threat import Linf
from igdefense.data.data import Data
from igdefense.errors import DataError, ModelError, OutputError
from igdefense.models.fingerprint import identity
from igdefense.verdicts.evaluate import IMAGES
from igdefense.verdicts.judge import predict
from igdefense.verdicts.run import Run
from igdefense.verdicts.store import image_ids


def verify(folder: str | Path, defense: nn.Module, data: Data, batch_size: int = 100) -> list[str]:
    """What does not hold in a finished run: an empty list if everything does.

    Every saved image is checked against the budget and [0, 1] and predicted again by the defense,
    on the draws kept for judging; no attack is run and the store is not read.
    """
    run = Run.load(folder)
    settings = run.settings
    if data.fingerprint != settings["data"]:
        raise DataError(f"The run was made on data {settings['data']}, not {data.fingerprint}.")
    if identity(defense) != settings["defense"]:
        raise ModelError(
            f"The run judged a defense {settings['defense']}, not {identity(defense)}."
        )
    threat, seed = Linf(settings["eps"]), int(settings["seed"])
    ids = [name for images, labels in data.batches(500) for name in image_ids(images, labels)]
    faults = []
    right = _right(defense, data, data.images, torch.arange(len(data)), ids, seed, batch_size)
    if not torch.equal(right, run.clean.robust):
        faults.append(f"clean: {int((right != run.clean.robust).sum())} verdicts differ")
    for name, verdict in run.verdicts.items():
        positions, x = _saved(Path(folder) / IMAGES / f"{name}.safetensors")
        if not torch.equal(positions, verdict.tested.nonzero().flatten()):
            faults.append(f"{name}: its saved images are not those that were attacked")
            continue
        if len(positions) == 0:
            continue
        inside = threat.contains(x, data[positions].images[:])
        if not inside.all():
            faults.append(f"{name}: {int((~inside).sum())} images are outside {threat!r}")
        again = torch.zeros_like(verdict.robust)
        again[positions] = _right(defense, data, x, positions, ids, seed, batch_size)
        again &= right
        if not torch.equal(again, verdict.robust):
            faults.append(f"{name}: {int((again != verdict.robust).sum())} verdicts differ")
    return faults


def _right(
    defense: nn.Module,
    data: Data,
    x: object,
    positions: torch.Tensor,
    ids: list[str],
    seed: int,
    batch_size: int,
) -> torch.Tensor:
    parts = []
    for start in range(0, len(positions), batch_size):
        here = positions[start : start + batch_size]
        batch = x[start : start + batch_size]  # type: ignore[index]
        found = predict(defense, batch, [ids[i] for i in here.tolist()], seed)
        parts.append(found == data.labels[here])
    return torch.cat(parts)


def _saved(path: Path) -> tuple[torch.Tensor, torch.Tensor]:
    try:
        tensors = load_file(path)
        return tensors["positions"], tensors["x"]
    except (OSError, SafetensorError, KeyError) as error:
        raise OutputError(f"{path} is missing or damaged ({error}).") from error
