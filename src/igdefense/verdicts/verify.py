"""Verify a finished run from its saved adversarial images alone."""

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from igdefense.attacks.threat import Linf
from igdefense.data.data import Data
from igdefense.errors import DataError, ModelError, OutputError
from igdefense.models.fingerprint import identity
from igdefense.verdicts.evaluate import IMAGES
from igdefense.verdicts.judge import predict
from igdefense.verdicts.run import Run
from igdefense.verdicts.store import image_ids
from igdefense.verdicts.verdict import Verdict


def verify(
    folder: str | Path,
    defense: nn.Module,
    data: Data,
    *,
    base: nn.Module | None = None,
    batch_size: int = 100,
) -> list[str]:
    """What does not hold in a finished run: an empty list if everything does.

    Every saved image is checked against the budget and [0, 1] and predicted again by the defense,
    on the draws kept for judging and on every fresh draw, and by the base where it is given and
    was asked; no attack is run and the store is not read.
    """
    run = Run.load(folder)
    settings = run.settings
    if data.fingerprint != settings["data"]:
        raise DataError(f"The run was made on data {settings['data']}, not {data.fingerprint}.")
    for what, model in (("defense", defense), ("base", base)):
        if model is not None and identity(model) != settings[what]:
            raise ModelError(f"The run judged a {what} {settings[what]}, not {identity(model)}.")
    threat = Linf(settings["eps"])
    again = _Again(data, int(settings["seed"]), batch_size)
    everyone = torch.arange(len(data))
    right = again.right(defense, data.images, everyone, run.clean)
    faults = _unlike("clean", right, run.clean)
    asked = run.base if base is not None else None
    if base is not None and asked is not None:
        base_right = again.right(base, data.images, everyone, asked.clean)
        faults += _unlike("clean, base", base_right, asked.clean)
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
        found = again.right(defense, x, positions, verdict)
        found[:, 0] &= right[:, 0]
        faults += _unlike(name, found, verdict)
        if base is not None and asked is not None and name in asked.attacked:
            found = again.right(base, x, positions, asked.attacked[name])
            found[:, 0] &= base_right[:, 0]
            faults += _unlike(f"{name}, base", found, asked.attacked[name])
    return faults


class _Again:
    """Predicts once more what a verdict says, on the same draws."""

    def __init__(self, data: Data, seed: int, batch_size: int) -> None:
        self.labels, self.seed, self.batch_size = data.labels, seed, batch_size
        self.ids = [
            name for images, labels in data.batches(500) for name in image_ids(images, labels)
        ]

    def right(
        self, model: nn.Module, x: Any, positions: Tensor, verdict: Verdict
    ) -> Bool[Tensor, "images draws"]:
        """Images x draws, as many draws as the verdict has; images not attacked are wrong."""
        right = torch.zeros_like(verdict.draws)
        for start in range(0, len(positions), self.batch_size):
            here = positions[start : start + self.batch_size]
            names = [self.ids[i] for i in here.tolist()]
            batch = x[start : start + self.batch_size]
            for draw in range(right.shape[1]):
                found = predict(model, batch, names, self.seed, draw)
                right[here, draw] = found == self.labels[here]
        return right


def _unlike(name: str, right: Bool[Tensor, "images draws"], verdict: Verdict) -> list[str]:
    differ = right != verdict.draws
    judged, fresh = int(differ[:, 0].sum()), int(differ[:, 1:].sum())
    faults = [f"{name}: {judged} verdicts differ"] if judged else []
    return faults + ([f"{name}: {fresh} outcomes of fresh draws differ"] if fresh else [])


def _saved(path: Path) -> tuple[Tensor, Tensor]:
    try:
        tensors = load_file(path)
        return tensors["positions"], tensors["x"]
    except (OSError, SafetensorError, KeyError) as error:
        raise OutputError(f"{path} is missing or damaged ({error}).") from error
