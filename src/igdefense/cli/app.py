"""The `igd` program: its commands, its log and how it ends."""

import logging
import os
import sys
from typing import Annotated

import typer

from igdefense import __version__
from igdefense.errors import IGDefenseError

app = typer.Typer(
    help="Interpretability-guided test-time defense, and the evaluation that tells whether it "
    "works. The path: layers -> rank -> tune -> defend -> predict.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"igd {__version__}")
        raise typer.Exit


@app.callback()
def options(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Warnings only.")] = False,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Set up the log; results go to standard output, everything else to standard error."""
    level = logging.WARNING if quiet else logging.INFO
    logging.basicConfig(level=level, format="%(message)s", stream=sys.stderr, force=True)


def main() -> None:
    """Run a command; a mistake the user can mend is one sentence and exit code 2."""
    try:
        app()
    except IGDefenseError as error:
        typer.echo(f"igd: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("igd: interrupted.", err=True)
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


from igdefense.cli import data, defense, demo, ranking, train  # noqa: E402, F401  (the commands)
