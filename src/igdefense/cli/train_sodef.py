"""`igd train sodef`: a SODEF head for any base model, with its card."""

import json
import platform
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import torch
import typer
from torch import nn

from igdefense.cli.options import check_classes
from igdefense.data.data import Data
from igdefense.defenses.rivals.head import SHAPES, Head
from igdefense.defenses.rivals.sodef import SODEF
from igdefense.errors import OutputError, SettingError
from igdefense.files import refuse_existing, written_whole
from igdefense.models.architectures import default_layer
from igdefense.models.check import check_model
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.progress import track
from igdefense.training.sodef import Phases, train_head


def run(
    base: nn.Module,
    images: Data,
    held_out: Data,
    out: Path,
    *,
    layer: str | None,
    shape: str,
    epochs: str,
    seed: int,
) -> None:
    """Train, measure, write `sodef.safetensors` and `card.json`, and say how it does."""
    phases = Phases(epochs=_epochs(epochs))
    layer = check(base, images, held_out, layer, shape)
    started = time.monotonic()
    head, records = train_head(base, images, layer=layer, shape=shape, phases=phases, seed=seed)
    seconds = time.monotonic() - started
    measured = measure(base, head, held_out)
    card: dict[str, Any] = {
        "model": f"SODEF head {shape}, {head.features} features of {layer}, {head.classes} classes",
        "command": shlex.join(["igd", *sys.argv[1:]]),
        "base": head.base,
        "fingerprint": weights_fingerprint(head),
        "phases": repr(phases),
        "seed": seed,
        "training images": len(images),
        "data": images.fingerprint,
        "seconds": round(seconds),
        "threads": torch.get_num_threads(),
        "test": measured,
        "log": records,
    }
    head.save(out / "sodef.safetensors")
    with written_whole(out / "card.json") as part:
        part.write_text(json.dumps(card, indent=1) + "\n")
    typer.echo(
        f"clean {measured['clean']:.2%} (base {measured['base']:.2%}), another prediction on "
        f"{measured['changed']} of {measured['images']} images -> {out}"
    )


def check(base: nn.Module, images: Data, held_out: Data, layer: str | None, shape: str) -> str:
    """The layer to take features from, once everything is known to fit."""
    if shape not in SHAPES:
        raise SettingError(f"No head {shape!r}; expected one of: {', '.join(SHAPES)}.")
    layer = layer or default_layer(base)
    if layer is None:
        raise SettingError("The penultimate layer is not known: name one by --layer.")
    for data in (images, held_out):
        check_classes(data, check_model(base, data.images[:2]))
    return layer


def refuse_out(out: Path, force: bool) -> None:
    """An error before any work if the folder holds a head already, or is a file."""
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out} is a file; --out names a folder.")
    refuse_existing(out / "card.json", force)


@torch.no_grad()
def measure(base: nn.Module, head: Head, data: Data) -> dict[str, Any]:
    """Clean accuracy of the head and of the base model, and where they differ."""
    defense = SODEF(base, head)
    right = plain = changed = 0
    count = -(-len(data) // 250)
    for batch, labels in track(data.batches(250), "test", total=count):
        images = batch.contiguous(memory_format=torch.channels_last)
        ours, theirs = defense(images).argmax(1), base(images).argmax(1)
        right += int((ours == labels).sum())
        plain += int((theirs == labels).sum())
        changed += int((ours != theirs).sum())
    return {
        "images": len(data),
        "data": data.fingerprint,
        "clean": right / len(data),
        "base": plain / len(data),
        "changed": changed,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def _epochs(text: str) -> tuple[int, int, int]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise SettingError(
            f"--phase-epochs {text!r}; expected three numbers of at least 1: 5,20,10."
        )
    first, second, third = map(int, parts)
    return first, second, third
