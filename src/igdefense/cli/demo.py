"""`igd demo`: see it happen on the embedded model and real images."""

import os
from pathlib import Path
from typing import Annotated

import torch
import typer

from igdefense.cli.app import app
from igdefense.cli.cd_ir import EncoderOption
from igdefense.cli.options import SeedOption
from igdefense.demo import PAGE, show
from igdefense.report.result_table import ResultTable


@app.command()
def demo(
    n: Annotated[int, typer.Option("--n", min=1, help="Test images.")] = 64,
    keep: Annotated[int, typer.Option(min=1, help="Neurons to keep for each class (k).")] = 16,
    encoder: EncoderOption = "embedded",
    seed: SeedOption = 0,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; two where there are two cores.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder of the runs and the page; the same command goes on there.")
    ] = Path("runs/demo"),
) -> None:
    """Rank, defend and attack the embedded model; a page shows it, in two to three minutes.

    The base model, smoothing alone and IG-Defense with LO-IR and with CD-IR, each under nine
    attacks of small budgets.

    Example: `igd demo`
    """
    typer.echo(
        f"Embedded CIFAR-10 ResNet18, layer4, {n} test images, L-inf 8/255, seed {seed}: nine "
        "attacks with small budgets on each defense."
    )
    processes = workers or min(2, os.cpu_count() or 1)
    torch.set_num_threads(1)  # nets this small gain nothing from more, and waiting threads cost
    evidence = show(out, n=n, keep=keep, seed=seed, encoder=encoder, workers=processes)
    table = ResultTable.of(evidence.exhibits)
    width = max(len(name) for name, _ in table.rows)
    typer.echo("\nAccuracy in % with 95 % Wilson intervals, on one judging draw:")
    typer.echo(f"{'':<{width}}  " + "".join(f"{run:<20}" for run in table.runs))
    for name, cells in table.rows:
        shown = (f"{cell.value} {cell.interval}" if cell else "" for cell in cells)
        typer.echo(f"{name:<{width}}  " + "".join(f"{text:<20}" for text in shown))
    typer.echo(
        "\nSmall budgets: no evidence of robustness. `igd evaluate --suite paper` asks properly."
    )
    typer.echo(f"The page: {(out / PAGE).resolve()}")
