"""`igd train-encoder`: make the image-text encoder that stands in for CLIP."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from igdefense.cli.app import app
from igdefense.cli.options import (
    DataDirOption,
    DataOption,
    ForceOption,
    SeedOption,
    images_for,
    number,
)
from igdefense.errors import DataError, OutputError, SettingError
from igdefense.files import in_folder, refuse_existing, written_whole
from igdefense.rankings.encoders.dual import DualEncoder
from igdefense.rankings.encoders.embedded import EmbeddedEncoder, save_encoder
from igdefense.training.contrast import Contrastive, zero_shot
from igdefense.training.loop import CHECKPOINT, OtherTrainingError, Schedule
from igdefense.training.loop import train as run

WHAT = (
    "A small image-text dual encoder, trained contrastively on the training images and captions "
    "made from their class names alone. It knows these classes and nothing else, and stands in "
    "for CLIP where CLIP's weights cannot ship. The paper used CLIP ViT-B/16: for its CD-IR, "
    "choose --encoder open_clip:ViT-B-16/openai."
)


@app.command("train-encoder")
def train_encoder(
    out: Annotated[Path, typer.Option(help="Folder for weights, card and checkpoint.")],
    data: DataOption = "cifar10:train",
    test: Annotated[str, typer.Option(help="Data of the card's accuracy.")] = "cifar10:test",
    data_dir: DataDirOption = None,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the data.")] = 10,
    batch: Annotated[int, typer.Option(min=1, help="Images in a step.")] = 128,
    peak: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="Highest learning rate.")
    ] = "0.2",  # type: ignore[assignment]
    n: Annotated[int | None, typer.Option("--n", help="First N training images only.")] = None,
    n_test: Annotated[int | None, typer.Option(help="First N test images only.")] = None,
    seed: SeedOption = 0,
    force: ForceOption = False,
) -> None:
    """Train the embedded image-text encoder; the same command resumes an interrupted training.

    Images against captions made from their class names, by CLIP's symmetric loss. `card.json`
    says how it was made and its zero-shot accuracy; `igd rank --method cd-ir --encoder
    embedded:FOLDER` uses it.

    Example: `igd train-encoder --epochs 10 --out my-encoder`
    """
    if not peak > 0:
        raise SettingError(f"peak = {peak:g}; expected a positive learning rate.")
    weights, card = out / "encoder.safetensors", out / "card.json"
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out} is a file; --out names a folder.")
    refuse_existing(card, force)
    images = images_for(data, data_dir if data.startswith("cifar10") else None, n)
    held_out = images_for(test, data_dir if test.startswith("cifar10") else None, n_test)
    names = tuple(images.class_names)
    if tuple(held_out.class_names) != names:
        raise DataError("The training and the test data have different classes; name the same.")
    for some in (images, held_out):
        EmbeddedEncoder.check_size(some.images.shape)
    recipe = Contrastive(class_names=names)
    schedule = Schedule(epochs=epochs, batch=batch, peak=peak)

    def watch(model: torch.nn.Module, watched: Any) -> dict[str, float]:
        assert isinstance(model, DualEncoder)
        return {"zero-shot": zero_shot(model, watched, names)}

    with in_folder(out):
        model = _fresh(seed)
        try:
            records = run(recipe, model, images, schedule, out, seed=seed, watch=watch)
        except OtherTrainingError:
            if not force:
                raise
            (out / CHECKPOINT).unlink()
            card.unlink(missing_ok=True)
            model = _fresh(seed)
            records = run(recipe, model, images, schedule, out, seed=seed, watch=watch)
        save_encoder(model, names, weights)
    encoder = EmbeddedEncoder.load(weights)  # as it ships: half precision
    accuracy = zero_shot(encoder.model, held_out, names)
    record: dict[str, Any] = {
        "encoder": WHAT,
        "command": shlex.join(["igd", *sys.argv[1:]]),
        "data": data,
        "recipe": repr(recipe),
        "fingerprint": encoder.identity,
        "parameters": sum(tensor.numel() for tensor in model.parameters()),
        "bytes": weights.stat().st_size,
        "seed": seed,
        "epochs": len(records),
        "training images": len(images),
        "seconds": round(sum(r["seconds"] for r in records)),
        "threads": torch.get_num_threads(),
        "test": {
            "images": len(held_out),
            "data": held_out.fingerprint,
            "zero-shot": accuracy,
            "prompts": "bare class names",
            "torch": torch.__version__,
        },
        "log": records,
    }
    with written_whole(card) as part:
        part.write_text(json.dumps(record, indent=1) + "\n")
    typer.echo(f"zero-shot {accuracy:.2%} of {len(held_out):,} test images -> {out}")


def _fresh(seed: int) -> DualEncoder:
    """New weights that depend on the seed alone."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return DualEncoder()
