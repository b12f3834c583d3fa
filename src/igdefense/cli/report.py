"""`igd report` and `igd figures`: finished runs as a page, or as figures and tables for a paper."""

import json
import logging
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from igdefense.cli.app import app
from igdefense.cli.judged import rebuilt
from igdefense.cli.options import DataDirOption, ForceOption, images_for
from igdefense.errors import DataError, IGDefenseError, ModelError, SettingError
from igdefense.files import refuse_existing
from igdefense.models.fingerprint import identity
from igdefense.paper.outcome import Outcome
from igdefense.paper.published import tables
from igdefense.report.evidence import gather
from igdefense.report.exhibit import Exhibit
from igdefense.report.model_info import ModelInfo
from igdefense.report.page import write_page
from igdefense.report.prints import require_matplotlib, write_prints
from igdefense.verdicts.run import Run

log = logging.getLogger(__name__)
RunsArg = Annotated[
    list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs on the same data.")
]
ProbeOption = Annotated[
    str | None,
    typer.Option(help="Data to look at neurons with, as for --data; the runs' own images."),
]
PublishedOption = Annotated[
    str | None,
    typer.Option(
        metavar="TABLE/BASE or FILE",
        help="Published accuracies for the table's cells: 'cifar10-rn18/DAJAT RN18', or a JSON "
        'file {"run name": {"IW-WC": 53.3, ...}}, or a model_info file of RobustBench, whose '
        "numbers are shown beside the first run.",
    ),
]
WithOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--with",
        metavar="OUTCOME.json",
        help="An outcome of `igd reproduce` to show as well, sweeps as curves; may be repeated.",
    ),
]


class Format(StrEnum):
    PDF = "pdf"
    PNG = "png"
    SVG = "svg"


@app.command()
def report(
    runs: RunsArg,
    out: Annotated[Path, typer.Option(help="Page to write (.html).")],
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "igdefense report",
    images: Annotated[int, typer.Option(min=0, help="Images in the gallery.")] = 200,
    surface_images: Annotated[
        int, typer.Option(min=0, help="Images whose loss surfaces are averaged; 0 for none.")
    ] = 8,
    probe: ProbeOption = None,
    published: PublishedOption = None,
    outcomes: WithOption = None,
    data_dir: DataDirOption = None,
    force: ForceOption = False,
) -> None:
    """Write one page that shows finished runs side by side; it opens from disk, without a network.

    No attack is run: what is shown comes from the runs' verdicts and saved images, and from the
    models built again.

    Example: `igd report runs/base runs/lo-ir --with reproduced/smoothing.json --out page.html`
    """
    if out.suffix.lower() not in (".html", ".htm"):
        raise SettingError(f"{out} does not end in .html; a page is an HTML file.")
    refuse_existing(out, force)
    shown = _outcomes(outcomes)
    exhibits = [exhibit_of(folder, data_dir) for folder in _distinct(runs)]
    evidence = gather(
        exhibits,
        probe=images_for(probe, data_dir, None) if probe else None,
        images=images,
        surface_images=surface_images,
        published=read_published(published, exhibits[0].name),
        outcomes=shown,
    )
    write_page(evidence, out, title=title)
    count = len(evidence.exhibits)
    typer.echo(f"{count} run{'s' * (count > 1)} -> {out} ({out.stat().st_size / 1e6:.1f} MB)")


@app.command()
def figures(
    runs: RunsArg,
    out: Annotated[Path, typer.Option(help="Folder to write to.")],
    format: Annotated[Format, typer.Option(help="Of the figures.")] = Format.PDF,
    surface_images: Annotated[
        int, typer.Option(min=0, help="Images whose loss surfaces are averaged; 0 for none.")
    ] = 8,
    published: PublishedOption = None,
    outcomes: WithOption = None,
    data_dir: DataDirOption = None,
    force: ForceOption = False,
) -> None:
    """Write the figures of finished runs for print, and their tables as LaTeX, Markdown and CSV.

    Needs the extra `figures`: `pip install 'igdefense[figures]'`.

    Example: `igd figures runs/base runs/lo-ir --format pdf --out figures`
    """
    require_matplotlib()
    refuse_existing(out, force)
    shown = _outcomes(outcomes)
    exhibits = [exhibit_of(folder, data_dir) for folder in _distinct(runs)]
    evidence = gather(
        exhibits,
        images=0,
        surface_images=surface_images,
        published=read_published(published, exhibits[0].name),
        outcomes=shown,
    )
    for path in write_prints(evidence, out, format.value):
        typer.echo(str(path))


def exhibit_of(folder: Path, data_dir: Path | None) -> Exhibit:
    """A run with its data and models, where they can be built again."""
    run = Run.load(folder)
    bare = Exhibit(str(run.settings["defense name"]), run, folder)
    recipe = run.settings.get("recipe")
    if recipe is None:
        log.info("%s was made from Python, so only its table is shown.", folder)
        return bare
    try:
        return _with_models(bare, folder, recipe, data_dir)
    except (IGDefenseError, OSError, KeyError) as error:
        log.warning(
            "%s: its models or data could not be built again (%s), so only its table is shown.",
            folder,
            error,
        )
        return bare


def _with_models(
    bare: Exhibit, folder: Path, recipe: dict[str, Any], data_dir: Path | None
) -> Exhibit:
    base, defense, data = rebuilt(folder, recipe, data_dir)
    if data.fingerprint != bare.run.settings["data"]:
        raise DataError(f"the data {recipe['data']} has changed since")
    if identity(defense) != bare.run.settings["defense"]:
        raise ModelError(f"the model {recipe['model']} has changed since")
    return Exhibit(bare.name, bare.run, folder, data, defense, base)


def _distinct(folders: list[Path]) -> list[Path]:
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise SettingError("A run is named twice; name different ones.")
    return folders


def _outcomes(paths: list[Path] | None) -> list[Outcome]:
    found = [Outcome.load(path) for path in paths or ()]
    if len({outcome.name for outcome in found}) < len(found):
        raise SettingError("Two outcomes are of the same table; name one of each.")
    return found


def read_published(given: str | None, first: str) -> Mapping[str, Mapping[str, float]] | str | None:
    """The name of a published table and base model as it is, a file as what it holds.

    RobustBench's files name no run, so theirs go to the first.
    """
    if given is None or (not given.endswith(".json") and given.partition("/")[0] in tables()):
        return given
    try:
        record = json.loads(Path(given).read_text())
        if "clean_acc" in record:
            return {first: ModelInfo.from_json(record, given).published}
        return {
            str(run): {str(row): float(value) for row, value in rows.items()}
            for run, rows in record.items()
        }
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise SettingError(
            f'{given} is not a JSON file of the form {{"run": {{"IW-WC": 53.3}}}} ({error}), nor '
            "one of the paper's tables with a base model ('cifar10-rn18/DAJAT RN18')."
        ) from error
