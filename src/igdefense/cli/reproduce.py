"""`igd reproduce`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from igdefense.cli.app import app
from igdefense.cli.backends import (
    AddressOption,
    BackendName,
    BackendOption,
    CpusOption,
    GpusOption,
    StoreOption,
    WorkersOption,
    backend_for,
)
from igdefense.cli.options import SeedOption
from igdefense.errors import SettingError
from igdefense.paper.missing import device_for
from igdefense.paper.reproduce import EXPERIMENTS
from igdefense.paper.reproduce import reproduce as run
from igdefense.paper.scale import scaled


class ScaleName(StrEnum):
    EMBEDDED = "embedded"
    SMALL = "small"
    PAPER = "paper"


@app.command()
def reproduce(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="A table or figure; `--list` names them.")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="Name every table and figure.")] = False,
    scale: Annotated[
        ScaleName,
        typer.Option(
            help="embedded: small budgets, minutes; small: whole budgets on 200 images, hours; "
            "paper: its models and data, which you bring."
        ),
    ] = ScaleName.EMBEDDED,
    out: Annotated[Path, typer.Option(help="Folder for results, runs and store.")] = Path(
        "reproduced"
    ),
    model: Annotated[str | None, typer.Option(help="A base model in place of the scale's.")] = None,
    arch: Annotated[str | None, typer.Option(help="Its architecture, for a checkpoint.")] = None,
    layer: Annotated[str | None, typer.Option(help="Its layer to mask.")] = None,
    keep: Annotated[int | None, typer.Option(min=1, help="Neurons to keep.")] = None,
    data: Annotated[str | None, typer.Option(help="Images to judge on.")] = None,
    probe: Annotated[str | None, typer.Option(help="Images to rank by.")] = None,
    encoder: Annotated[str | None, typer.Option(help="Image-text encoder of CD-IR.")] = None,
    sodef: Annotated[
        str | None, typer.Option(help="SODEF's head for that model, from `igd train sodef`.")
    ] = None,
    n: Annotated[int | None, typer.Option("--n", min=1, help="First N images only.")] = None,
    workers: WorkersOption = 1,
    backend: BackendOption = BackendName.LOCAL,
    address: AddressOption = "auto",
    gpus_per_worker: GpusOption = None,
    cpus_per_worker: CpusOption = 1,
    store: StoreOption = None,
    device: Annotated[
        str | None,
        typer.Option(help="cpu, cuda, cuda:1; at the scale paper a GPU if there is one."),
    ] = None,
    seed: SeedOption = 0,
) -> None:
    """Run a table or figure of the paper and print it beside the published numbers.

    What is done is kept, and shared between tables: the same command goes on after an
    interruption, and a second table finds the runs it has in common with the first. `igd report
    --with OUT/NAME.json` shows it on a page. At the scales small and paper, what is missing and
    how long it will take is told first.

    Example: `igd reproduce ablation`
    """
    if show:
        width = max(map(len, EXPERIMENTS))
        for key, experiment in EXPERIMENTS.items():
            typer.echo(f"{key:<{width}}  {experiment.what}")
        return
    if name is None:
        raise SettingError("Name a table or figure; `igd reproduce --list` lists them.")
    chosen = scaled(
        scale.value,
        name,
        model=model,
        arch=arch,
        layer=layer,
        keep=keep,
        data=data,
        probe=probe,
        encoder=encoder,
        sodef=sodef,
        n=n,
    )
    where = backend_for(ctx, backend, workers, address, gpus_per_worker, cpus_per_worker)
    outcome = run(
        name,
        chosen,
        out,
        seed=seed,
        backend=where,
        store=store,
        device=device_for(device, chosen.name),
    )
    typer.echo(outcome.table())
    typer.echo(f"-> {out / name}.json")
