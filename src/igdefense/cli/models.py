"""`igd models`: the models that come along, their cards, and how a card gets its numbers."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from igdefense.cli.app import app
from igdefense.cli.options import DataDirOption, ForceOption, SeedOption, one_of_several
from igdefense.errors import ModelError, OutputError
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.models.load import load_model
from igdefense.models.zoo import EMBEDDED, card_of, nearest, shipped, zoo, zoo_name
from igdefense.training.card import measure_autoattack, read_card, write_card

models_app = typer.Typer(
    help="The models that come along, with their numbers.\n\nExample: `igd models`",
    rich_markup_mode="markdown",
    invoke_without_command=True,
)
app.add_typer(models_app, name="models")
HEADS = ("name", "data", "recipe", "clean", "PGD-50", "AutoAttack", "MB", "made in")


@models_app.callback()
def models(ctx: typer.Context) -> None:
    """List the models that every command takes by name, with their numbers.

    Accuracies in %, under L-inf attacks of the budget in the card: clean and PGD-50 on the whole
    test set, AutoAttack on its first 1,000 images.

    Example: `igd models`
    """
    if ctx.invoked_subcommand is not None:
        return
    rows = [HEADS, *(_row(name, card_of(name)) for name in zoo())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
    typer.echo(f"`embedded` is {EMBEDDED}; `igd models card NAME` tells how one was made.")


@models_app.command()
def card(
    name: Annotated[str, typer.Argument(help="A name of `igd models`.")],
    log: Annotated[bool, typer.Option("--log", help="Epoch by epoch, too.")] = False,
) -> None:
    """Show how a model was made, and every number that was measured, as JSON.

    Example: `igd models card embedded`
    """
    known = zoo_name(name)
    if known is None:
        raise ModelError(f"The zoo has no model {name!r}. {nearest(name)}")
    found = card_of(known)
    typer.echo(json.dumps(found if log else found | {"log": len(found["log"])}, indent=1))


@models_app.command()
def measure(
    folder: Annotated[Path, typer.Argument(help="Folder of `igd train`.")],
    n: Annotated[int, typer.Option("--n", min=1, help="First N test images.")] = 1000,
    test: Annotated[
        str | None, typer.Option(help="Test data, where the card does not name it.")
    ] = None,
    data_dir: DataDirOption = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes on this machine.")] = 1,
    seed: SeedOption = 0,
    force: ForceOption = False,
) -> None:
    """Add AutoAttack's accuracy to the card of a trained model; the same command resumes.

    The budget is the card's, and the run is kept in FOLDER/autoattack for `igd report`.

    Example: `igd models measure my-model`
    """
    path = folder / "card.json"
    found = read_card(path)
    if "autoattack" in found and not force:
        raise OutputError(f"{path} has AutoAttack's accuracy already; --force measures it again.")
    data = test or found["test"].get("name")
    if data is None:
        raise OutputError(f"{path} does not name its test data: give --test (cifar10:test, say).")
    model = load_model(str(folder / "model.safetensors"), found["arch"])
    if weights_fingerprint(model) != found["fingerprint"]:
        raise ModelError(f"{folder}/model.safetensors is not the model of {path}: train it again.")
    top, bottom = map(float, found["test"]["eps"].split("/"))
    images = one_of_several(data, data_dir, n)
    measured = measure_autoattack(
        model, images, folder / "autoattack", eps=top / bottom, seed=seed, workers=workers
    )
    write_card(path, found | {"autoattack": measured})
    typer.echo(f"AutoAttack {measured['autoattack']:.2%} of {n:,} images -> {path}")


def _row(name: str, card: dict[str, Any]) -> tuple[str, ...]:
    test, attacked = card["test"], card.get("autoattack")
    hard = f"{100 * attacked['autoattack']:.1f} (n = {attacked['images']:,})" if attacked else "-"
    size = len(shipped(name, ".safetensors").read_bytes()) / 1e6
    return (
        name,
        card.get("data", "cifar10:train").partition(":")[0],
        card["recipe"].replace("AWP(recipe=", "AWP ").partition("(")[0],
        f"{100 * test['clean']:.2f}",
        f"{100 * test['pgd50']:.2f}" if "pgd50" in test else "-",
        hard,
        f"{size:.1f}",
        f"{card['seconds'] / 60:.0f} min",
    )
