"""`igd train`: make a robust base model."""

import json
import sys
from pathlib import Path
from typing import Annotated

import torch
import typer
from safetensors.torch import save_file

from igdefense.cli.app import app
from igdefense.cli.options import (
    DataDirOption,
    DataOption,
    ForceOption,
    SeedOption,
    images_for,
    number,
)
from igdefense.errors import SettingError
from igdefense.files import refuse_existing, written_whole
from igdefense.models.architectures import build
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.training.card import measure
from igdefense.training.loop import Schedule
from igdefense.training.loop import train as run
from igdefense.training.recipes import RECIPES


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(help=f"One of: {', '.join(RECIPES)}.")],
    out: Annotated[Path, typer.Option(help="Folder for weights, card, log and checkpoint.")],
    arch: Annotated[str, typer.Option(help="Architecture to train.")] = "resnet18-w16",
    data: DataOption = "cifar10:train",
    test: Annotated[str, typer.Option(help="Data for the card's accuracies.")] = "cifar10:test",
    data_dir: DataDirOption = None,
    epochs: Annotated[int, typer.Option(help="Passes over the data.")] = 24,
    batch: Annotated[int, typer.Option(help="Images in a step.")] = 128,
    peak: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="Highest learning rate.")
    ] = "0.2",  # type: ignore[assignment]
    eps: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="L-inf budget, pixel units.")
    ] = "8/255",  # type: ignore[assignment]
    pgd_steps: Annotated[int, typer.Option(help="Steps of the card's PGD.")] = 50,
    n: Annotated[int | None, typer.Option("--n", help="First N training images only.")] = None,
    n_test: Annotated[int | None, typer.Option(help="First N test images only.")] = None,
    seed: SeedOption = 0,
    force: ForceOption = False,
) -> None:
    """Train a robust model by a recipe; the same command resumes an interrupted training.

    Example: `igd train fat --arch resnet18-w16 --epochs 24 --out my-model`
    """
    if recipe not in RECIPES:
        raise SettingError(f"No recipe {recipe!r}; expected one of: {', '.join(RECIPES)}.")
    weights, card = out / "model.safetensors", out / "card.json"
    refuse_existing(card, force)
    images = images_for(data, data_dir if data.startswith("cifar10") else None, n)
    held_out = images_for(test, data_dir if test.startswith("cifar10") else None, n_test)
    with torch.random.fork_rng():  # initial weights come from torch's own generator
        torch.manual_seed(seed)
        model = build(arch, len(images.class_names))
    records = run(
        RECIPES[recipe](eps=eps),
        model,
        images,
        Schedule(epochs=epochs, batch=batch, peak=peak),
        out,
        seed=seed,
    )
    tensors = {name: value.contiguous() for name, value in model.state_dict().items()}
    with written_whole(weights) as part:
        save_file(tensors, part)
    measured = measure(model, held_out, eps=eps, steps=pgd_steps, seed=seed)
    record = {
        "model": f"{arch}, {len(images.class_names)} classes, trained by {recipe}",
        "command": " ".join(["igd", *sys.argv[1:]]),
        "arch": arch,
        "recipe": repr(RECIPES[recipe](eps=eps)),
        "fingerprint": weights_fingerprint(model),
        "seed": seed,
        "epochs": len(records),
        "training images": len(images),
        "seconds": round(sum(r["seconds"] for r in records)),
        "threads": torch.get_num_threads(),
        "test": measured,
        "log": records,
    }
    with written_whole(card) as part:
        part.write_text(json.dumps(record, indent=1) + "\n")
    scores = measured
    typer.echo(
        f"clean {scores['clean']:.2%}, PGD-{pgd_steps} {scores[f'pgd{pgd_steps}']:.2%} -> {out}"
    )
