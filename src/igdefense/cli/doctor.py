"""`igd doctor`."""

from pathlib import Path
from typing import Annotated

import typer

from igdefense.cli.app import app
from igdefense.doctor.diagnose import diagnose


@app.command()
def doctor(
    store: Annotated[
        Path, typer.Option(help="Folder of finished units whose disk is looked at.")
    ] = Path("runs/.store"),
) -> None:
    """Say what works on this machine, what does not and what to do about it.

    Versions, device, threads, disk, every extra of the package. What might crash is tried in a
    process of its own. The exit code is 0 when the core works, whatever else is missing.

    Example: `igd doctor`
    """
    healthy = True
    for finding in diagnose(store):
        typer.echo(str(finding))
        healthy &= finding.state == "ok" or not finding.core
    raise typer.Exit(0 if healthy else 1)
