"""`igd model-info`."""

from pathlib import Path
from typing import Annotated

import typer

from igdefense.cli.app import app
from igdefense.cli.options import ForceOption
from igdefense.files import refuse_existing
from igdefense.report.model_info import ModelInfo
from igdefense.verdicts.run import Run


@app.command("model-info")
def model_info(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    out: Annotated[Path, typer.Option(help="JSON file to write.")],
    name: Annotated[str | None, typer.Option(help="Title; the defense's name.")] = None,
    authors: Annotated[str | None, typer.Option(help="Authors.")] = None,
    venue: Annotated[str | None, typer.Option(help="Where it was published.")] = None,
    link: Annotated[str | None, typer.Option(help="Address of the paper.")] = None,
    architecture: Annotated[str | None, typer.Option(help="Of the base model.")] = None,
    dataset: Annotated[str | None, typer.Option(help="cifar10, cifar100 or imagenet.")] = None,
    passes: Annotated[
        int | None, typer.Option(help="Forward passes a prediction takes (`igd cost`).")
    ] = None,
    force: ForceOption = False,
) -> None:
    """Write a run's results as RobustBench's model_info JSON.

    The way back: `igd report RUN... --published FILE.json` shows such a file's numbers beside the
    first run. RobustBench's leaderboard takes no random defenses; the footnote says what was run.

    Example: `igd model-info runs/lo-ir --dataset cifar10 --out lo-ir.json`
    """
    refuse_existing(out, force)
    about = {"name": name, "authors": authors, "venue": venue, "link": link, "dataset": dataset}
    about |= {"architecture": architecture}
    info = ModelInfo.of(Run.load(run), **about, number_forward_passes=passes)
    info.save(out)
    rows = ", ".join(f"{row} {value:.2f}" for row, value in info.published.items())
    typer.echo(f"{rows} -> {out}")
