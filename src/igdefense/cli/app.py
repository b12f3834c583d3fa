"""The `igd` program: its commands, its log and how it ends."""

import logging
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from igdefense import __version__
from igdefense.errors import IGDefenseError

ORDER = (
    *("layers", "rank", "compare", "explain", "tune", "defend", "predict", "export"),
    *("evaluate", "verify", "diff", "search", "cost", "report", "figures", "model-info"),
    *("reproduce", "models", "train", "train-encoder", "data", "demo", "doctor"),
)


class DataPath(TyperGroup):
    """Lists the commands in the order of the data path; any other comes after them."""

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        return sorted(names, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


app = typer.Typer(
    cls=DataPath,
    help="Interpretability-guided test-time defense, and the evaluation that tells whether it "
    "works.\n\nThe path: layers -> rank -> tune -> defend -> predict -> evaluate -> report. "
    "Each command's `--help` shows an example.\n\nExample: `igd demo`",
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
        code = app(prog_name="igd", standalone_mode=False)
    except IGDefenseError as error:
        _end(str(error), 2)
    except (KeyboardInterrupt, typer.Abort):
        _end("interrupted.", 130)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _end(f"{where}{error.strerror or error}.", 2)
    except Exception as error:
        if not hasattr(error, "format_message"):  # what typer's own errors have in every version
            raise
        _usage(error)
    else:
        if code == 130:  # how typer reports an interruption
            _end("interrupted.", 130)
        sys.exit(code if isinstance(code, int) else 0)


def _usage(error: Any) -> None:
    """A mistake in the command itself: one sentence that says where to look."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        sys.exit(2)
    hint = f" `{context.command_path} --help` shows an example." if context else ""
    message = str(error.format_message()).rstrip(". ")
    _end(message + ("" if message.endswith("?") else ".") + hint, 2)


def _end(message: str, code: int) -> None:
    typer.echo(f"igd: {' '.join(line.strip() for line in message.splitlines())}", err=True)
    sys.exit(code)


from igdefense.cli import (  # noqa: E402
    cost,  # noqa: F401
    data,  # noqa: F401
    defense,  # noqa: F401
    demo,  # noqa: F401
    diff,  # noqa: F401
    doctor,  # noqa: F401
    evaluate,  # noqa: F401
    export,  # noqa: F401
    model_info,  # noqa: F401
    models,  # noqa: F401
    predict,  # noqa: F401
    ranking,  # noqa: F401
    rankings,  # noqa: F401
    report,  # noqa: F401
    reproduce,  # noqa: F401
    search,  # noqa: F401
    train,  # noqa: F401
    train_encoder,  # noqa: F401
)
