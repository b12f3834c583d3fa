"""`igd diff`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from igdefense.cli.app import app
from igdefense.cli.options import SeedOption
from igdefense.files import written_whole
from igdefense.verdicts.diff import diff_runs
from igdefense.verdicts.difference import differences_table
from igdefense.verdicts.run import Run


@app.command()
def diff(
    left: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    right: Annotated[Path, typer.Argument(metavar="OTHER", help="The run to compare it with.")],
    out: Annotated[Path | None, typer.Option(help="JSON file for the numbers.")] = None,
    seed: SeedOption = 0,
) -> None:
    """Compare two finished runs on the same images: RUN minus OTHER, with intervals.

    Paired bootstrap interval, McNemar's exact test and the smallest difference that so many images
    could have shown (5 % two-sided, 80 % power).

    Example: `igd diff runs/lo-ir runs/none`
    """
    one, other = Run.load(left), Run.load(right)
    rows = diff_runs(one, other, seed)
    names = [run.settings["defense name"] for run in (one, other)]
    n, eps = len(one.clean.robust), one.settings["eps"] * 255
    typer.echo(
        f"{names[0]} minus {names[1]}: n = {n}, L-inf {eps:g}/255, in percentage points; "
        "n could show: the smallest difference found 4 times in 5"
    )
    typer.echo("\n".join(differences_table(rows, left.name, right.name)))
    for key in ("suite", "mode", "seed"):
        if one.settings[key] != other.settings[key]:
            typer.echo(f"* {key}: {one.settings[key]} against {other.settings[key]}.")
    if out is not None:
        with written_whole(out) as part:
            part.write_text(json.dumps([row.to_json() for row in rows], indent=1) + "\n")
        typer.echo(f"-> {out}")
