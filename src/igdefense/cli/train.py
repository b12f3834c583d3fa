"""`igd train`: make a robust base model, or a SODEF head for one."""

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from torch import nn

from igdefense.attacks.pgd import PGD
from igdefense.attacks.threat import Linf
from igdefense.cli import train_sodef
from igdefense.cli.app import app
from igdefense.cli.options import (
    DataDirOption,
    DataOption,
    ForceOption,
    SeedOption,
    number,
    one_of_several,
    refuse_given,
)
from igdefense.data.data import Data
from igdefense.errors import DataError, OutputError, SettingError
from igdefense.files import in_folder, refuse_existing
from igdefense.models.architectures import build, parse
from igdefense.models.check import check_model
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.models.load import load_model
from igdefense.training.average import Average
from igdefense.training.awp import AWP
from igdefense.training.board import check_board
from igdefense.training.card import measure, write_card
from igdefense.training.loop import CHECKPOINT, OtherTrainingError, Schedule
from igdefense.training.loop import train as run
from igdefense.training.recipe import Recipe
from igdefense.training.recipes import RECIPES
from igdefense.training.stored import store
from igdefense.training.watchdog import Watchdog

SODEF = "sodef"
NAMES = (*RECIPES, SODEF)
OF_SODEF = ("base", "layer", "head", "phase_epochs")
NOT_OF_SODEF = (
    *("epochs", "batch", "peak", "schedule", "eps", "pgd_steps", "attack_steps", "smoothing"),
    *("awp", "ema", "validation", "patience", "tensorboard", "half"),
)


class ShapeName(StrEnum):
    CYCLIC = "cyclic"
    PIECEWISE = "piecewise"


@app.command()
def train(
    ctx: typer.Context,
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help=f"One of: {', '.join(NAMES)}.")],
    out: Annotated[Path, typer.Option(help="Folder for weights, card and checkpoint.")],
    arch: Annotated[str, typer.Option(help="Architecture to train.")] = "resnet18-w16",
    data: DataOption = "cifar10:train",
    test: Annotated[str, typer.Option(help="Data for the card's accuracies.")] = "cifar10:test",
    data_dir: DataDirOption = None,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the data.")] = 24,
    batch: Annotated[int, typer.Option(min=1, help="Images in a step.")] = 128,
    peak: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="Highest learning rate.")
    ] = "0.2",  # type: ignore[assignment]
    schedule: Annotated[
        ShapeName, typer.Option(help="Learning rate up and down in lines, or in steps of 1/10.")
    ] = ShapeName.CYCLIC,
    eps: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="L-inf budget, pixel units.")
    ] = "8/255",  # type: ignore[assignment]
    attack_steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of the training attack, if it takes several.")
    ] = None,
    smoothing: Annotated[
        float, typer.Option(parser=number, metavar="NUMBER", help="Label smoothing.")
    ] = "0",  # type: ignore[assignment]
    awp: Annotated[bool, typer.Option("--awp", help="Perturb the weights, too.")] = False,
    ema: Annotated[
        float | None,
        typer.Option(parser=number, metavar="DECAY", help="Keep an average of the weights: 0.999."),
    ] = None,
    validation: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Hold N images out; the epoch most robust on them is kept."
        ),
    ] = 0,
    patience: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many epochs that were no better.")
    ] = None,
    half: Annotated[
        bool, typer.Option("--half", help="Store, and measure, weights in half precision.")
    ] = False,
    tensorboard: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Also log for TensorBoard.")
    ] = None,
    pgd_steps: Annotated[int, typer.Option(min=1, help="Steps of the card's PGD.")] = 50,
    n: Annotated[int | None, typer.Option("--n", help="First N training images only.")] = None,
    n_test: Annotated[int | None, typer.Option(help="First N test images only.")] = None,
    seed: SeedOption = 0,
    force: ForceOption = False,
    base: Annotated[
        str, typer.Option(metavar="MODEL", help="sodef: the model that gets a head.")
    ] = "embedded",
    layer: Annotated[
        str | None, typer.Option(help="sodef: where the features are; the penultimate layer.")
    ] = None,
    head: Annotated[
        str, typer.Option(help="sodef: rebuffi (small) or trades, the published shapes.")
    ] = "rebuffi",
    phase_epochs: Annotated[
        str, typer.Option(metavar="N,N,N", help="sodef: epochs of its three phases.")
    ] = "5,20,10",
) -> None:
    """Train a robust model by a recipe; the same command resumes an interrupted training.

    One step: `fat`, `gat`, `nuat`. Several: `pgd-at`, `trades`, `oaat`, `dajat`, `las-at`; `--awp`
    goes with all of them. Afterwards `card.json` says how the model was made and how it does
    (`igd models measure FOLDER` adds AutoAttack), and every command takes the weights:
    `igd layers my-model/model.safetensors --arch resnet18-w16`.

    `sodef` trains a head on the frozen features of `--base`, for `igd evaluate --defense sodef
    --sodef my-head/sodef.safetensors`: `igd train sodef --base embedded --out my-head`.

    Example: `igd train fat --arch resnet18-w16 --epochs 24 --out my-model`

    Example: `igd train trades --awp --ema 0.999 --validation 1000 --attack-steps 5 --out my-model`
    """
    if recipe not in NAMES:
        raise SettingError(f"No recipe {recipe!r}; expected one of: {', '.join(NAMES)}.")
    if recipe == SODEF:
        refuse_given(ctx, NOT_OF_SODEF, "sodef has phases of its own")
        train_sodef.refuse_out(out, force)
        given = ctx.get_parameter_source("arch")
        known = arch if given is not None and given.name == "COMMANDLINE" else None
        model = load_model(base, known)
        train_sodef.run(
            model,
            one_of_several(data, data_dir, n),
            one_of_several(test, data_dir, n_test),
            out,
            layer=layer,
            shape=head,
            epochs=phase_epochs,
            seed=seed,
        )
        return
    refuse_given(ctx, OF_SODEF, f"the recipe is {recipe}")
    if not peak > 0:
        raise SettingError(f"peak = {peak:g}; expected a positive learning rate.")
    chosen = _recipe(recipe, eps, smoothing, attack_steps, awp)
    planned = Schedule(epochs=epochs, batch=batch, peak=peak, shape=schedule.value)
    watchdog = Watchdog(validation=validation, patience=patience)
    parse(arch)
    PGD(threat=Linf(eps), steps=pgd_steps)  # a mistake shows now, not after the training
    if ema is not None:
        Average(nn.Identity(), ema)
    check_board(tensorboard)
    weights, card = out / "model.safetensors", out / "card.json"
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out} is a file; --out names a folder.")
    refuse_existing(card, force)
    images = one_of_several(data, data_dir, n)
    held_out = one_of_several(test, data_dir, n_test)
    _check_test(images, held_out)
    watchdog.split(images, seed)

    def trained() -> tuple[nn.Module, list[dict[str, float]]]:
        model = _fresh(arch, images, held_out, seed)
        records = run(
            chosen,
            model,
            images,
            planned,
            out,
            seed=seed,
            watchdog=watchdog,
            ema=ema,
            tensorboard=tensorboard,
        )
        return model, records

    with in_folder(out):
        try:
            model, records = trained()
        except OtherTrainingError:
            if not force:
                raise
            (out / CHECKPOINT).unlink()
            card.unlink(missing_ok=True)
            model, records = trained()
        store(model, weights, half=half)
    kept = out / "measured.json"
    measured = measure(model, held_out, eps=eps, steps=pgd_steps, seed=seed, kept=kept)
    record: dict[str, Any] = {
        "model": f"{arch}, {len(images.class_names)} classes, trained by {recipe}",
        "command": shlex.join(["igd", *sys.argv[1:]]),
        "arch": arch,
        "recipe": repr(chosen),
        "data": data,
        "fingerprint": weights_fingerprint(model),
        "seed": seed,
        "epochs": len(records),
        "training images": len(images) - validation,
        "seconds": round(sum(r["seconds"] for r in records)),
        "threads": torch.get_num_threads(),
        "test": measured | {"name": test},
        "log": records,
    }
    write_card(card, record)
    kept.unlink(missing_ok=True)
    clean, robust = measured["clean"], measured[f"pgd{pgd_steps}"]
    typer.echo(f"clean {clean:.2%}, PGD-{pgd_steps} {robust:.2%} -> {out}")


def _recipe(name: str, eps: float, smoothing: float, steps: int | None, awp: bool) -> Recipe:
    kind = RECIPES[name]
    given: dict[str, Any] = {"eps": eps, "smoothing": smoothing}
    if steps is not None:
        if "steps" not in kind.__dataclass_fields__:
            raise SettingError(f"--attack-steps has no effect here: {name} attacks in one step.")
        given["steps"] = steps
    chosen = kind(**given)
    assert isinstance(chosen, Recipe)
    return AWP(chosen) if awp else chosen


def _fresh(arch: str, images: Data, held_out: Data, seed: int) -> nn.Module:
    """New weights that depend on the seed alone, once both data sets are known to fit."""
    with torch.random.fork_rng():  # initial weights come from torch's own generator
        torch.manual_seed(seed)
        model = build(arch, len(images.class_names)).eval()
    for data in (images, held_out):
        check_model(model, data.images[:2])
    return model


def _check_test(images: Data, held_out: Data) -> None:
    """The card's data may lack the last classes, but means the same by each."""
    trained, tested = tuple(images.class_names), tuple(held_out.class_names)
    if tested != trained[: len(tested)]:
        raise DataError(
            f"The test data has classes {_some(tested)} but the training data {_some(trained)}: "
            "name the same classes in --data and --test."
        )


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f"... ({len(names)})" if len(names) > 3 else "")
