"""A model's card: how it was made, and how it does on the test set."""

import platform
from typing import Any

import torch
from torch import nn

from igdefense.attacks.pgd import PGD
from igdefense.attacks.threat import Linf
from igdefense.data.data import Data
from igdefense.progress import track
from igdefense.randomness import Streams, seed_of


def measure(
    model: nn.Module,
    data: Data,
    *,
    eps: float = 8 / 255,
    steps: int = 50,
    seed: int = 0,
    batch_size: int = 250,
    progress: bool | None = None,
) -> dict[str, Any]:
    """Clean accuracy, and accuracy under PGD from one random start with steps of eps/4."""
    attack = PGD(threat=Linf(eps), steps=steps)
    clean = robust = start = 0
    count = -(-len(data) // batch_size)
    for batch, labels in track(data.batches(batch_size), f"PGD-{steps}", progress, total=count):
        images = batch.contiguous(memory_format=torch.channels_last)
        keys = range(start, start + len(images))
        start += len(images)
        rng = Streams([seed_of(seed, "card", key) for key in keys])
        with torch.no_grad():
            right = model(images).argmax(1) == labels
            x = attack(model, images, labels, rng=rng)
            clean += int(right.sum())
            robust += int((right & (model(x).argmax(1) == labels)).sum())
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
