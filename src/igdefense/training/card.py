"""A model's card: how it was made, and how it does on the test set."""

import json
import logging
import platform
from pathlib import Path
from typing import Any

import torch
from torch import nn

from igdefense.attacks.pgd import PGD
from igdefense.attacks.threat import Linf
from igdefense.data.data import Data
from igdefense.errors import OutputError
from igdefense.files import written_whole
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.progress import track
from igdefense.randomness import Streams, seed_of
from igdefense.verdicts.evaluate import evaluate

log = logging.getLogger(__name__)


def measure(
    model: nn.Module,
    data: Data,
    *,
    eps: float = 8 / 255,
    steps: int = 50,
    seed: int = 0,
    batch_size: int = 250,
    kept: Path | None = None,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Clean accuracy, and accuracy under PGD from one random start with steps of eps/4.

    `kept` is a file with the counts so far: the same call goes on from there.
    """
    attack = PGD(threat=Linf(eps), steps=steps)
    task = [weights_fingerprint(model), data.fingerprint, repr(attack), seed]
    start, clean, robust = _counts(kept, task)
    rest = data[start:] if start < len(data) else None
    batches = rest.batches(batch_size) if rest else iter(())
    count = -(-(len(data) - start) // batch_size)
    for batch, labels in track(batches, f"PGD-{steps}", progress, total=count):
        images = batch.contiguous(memory_format=torch.channels_last)
        keys = range(start, start + len(images))
        start += len(images)
        rng = Streams([seed_of(seed, "card", key) for key in keys])
        with torch.no_grad():
            right = model(images).argmax(1) == labels
            x = attack(model, images, labels, rng=rng)
            clean += int(right.sum())
            robust += int((right & (model(x).argmax(1) == labels)).sum())
        if kept is not None:
            with written_whole(kept) as part:
                part.write_text(json.dumps({"task": task, "counts": [start, clean, robust]}))
    return {
        "images": len(data),
        "data": data.fingerprint,
        "clean": clean / len(data),
        f"pgd{steps}": robust / len(data),
        "eps": f"{eps * 255:g}/255",
        "attack": repr(attack),
        "seed": seed,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def measure_autoattack(
    model: nn.Module,
    data: Data,
    out: Path,
    *,
    eps: float = 8 / 255,
    seed: int = 0,
    workers: int = 1,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Accuracy under AutoAttack, by `evaluate`; the run in `out` goes on where it was left."""
    run = evaluate(
        model,
        data,
        suite="autoattack",
        eps=eps,
        seed=seed,
        out=out,
        store=out / ".store",
        workers=workers,
        progress=progress,
    )
    return {
        "images": len(data),
        "data": data.fingerprint,
        "clean": float(run.clean.robust.double().mean()),
        "autoattack": float(run.worst_case.robust.double().mean()),
        "eps": f"{eps * 255:g}/255",
        "seed": seed,
        "seconds": round(sum(run.seconds.values())),
        "columns": {name: column["attack"] for name, column in run.settings["columns"].items()},
        "versions": run.settings["versions"],
    }


def read_card(path: Path) -> dict[str, Any]:
    """The card in a file, of `igd train` or of the zoo."""
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(card, dict) or not {"arch", "fingerprint", "test"} <= card.keys():
            raise ValueError("it has no arch, fingerprint and test")
    except FileNotFoundError as error:
        raise OutputError(
            f"{path} is missing: name a folder of `igd train` that has finished."
        ) from error
    except ValueError as error:  # broken JSON is one, too
        reason = str(error).splitlines()[0]
        raise OutputError(f"{path} is not a model's card ({reason}): train it again.") from error
    return card


def write_card(path: Path, card: dict[str, Any]) -> None:
    """Whole or not at all."""
    with written_whole(path) as part:
        part.write_text(json.dumps(card, indent=1) + "\n")


def _counts(kept: Path | None, task: list[Any]) -> tuple[int, int, int]:
    if kept is None or not kept.exists():
        return 0, 0, 0
    try:
        found = json.loads(kept.read_text())
        start, clean, robust = map(int, found["counts"])
    except (ValueError, KeyError, TypeError):
        return 0, 0, 0
    if found["task"] != task:
        return 0, 0, 0
    log.info("Measured %d images already (%s).", start, kept)
    return start, clean, robust
