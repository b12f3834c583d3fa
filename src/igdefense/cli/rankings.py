"""`igd compare` and `igd explain`."""

import logging
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from igdefense.cli.app import app
from igdefense.cli.options import (
    ArchOption,
    BatchOption,
    CountOption,
    DataDirOption,
    DataOption,
    ForceOption,
    ForceRankingOption,
    MeanOption,
    ModelDirOption,
    SizeOption,
    StdOption,
    channels,
    images_for,
)
from igdefense.errors import SettingError
from igdefense.files import refuse_existing
from igdefense.models.load import load_model
from igdefense.rankings.compare import compare as compare_rankings
from igdefense.rankings.explain import explain as explain_class
from igdefense.rankings.ranking import Ranking
from igdefense.report.drawing import check_png, save_png
from igdefense.report.pictures import MOST_CLASSES, comparison_picture, explanation_picture

log = logging.getLogger(__name__)
PictureOption = Annotated[Path | None, typer.Option(help="Picture to write (.png).")]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Every number, as JSON.")]


@app.command()
def compare(
    rankings: Annotated[list[Path], typer.Argument(help="Two or more files made by `igd rank`.")],
    k: Annotated[
        list[int] | None, typer.Option("--k", help="Size of the top sets; may be repeated.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Data whose class names to show; numbers otherwise.")
    ] = None,
    out: PictureOption = None,
    json_file: JsonOption = None,
    force: ForceOption = False,
) -> None:
    """Tell how far rankings of a layer agree: shared top neurons, correlation of the scores.

    The table has the overlap that random rankings would have beside it.

    Example: `igd compare lo-ir.safetensors random.safetensors --data embedded:probe --out
    agreement.png`
    """
    _check_outputs(out, json_file, force)
    class_names = images_for(data, None, None).class_names if data else None
    comparison = compare_rankings(_named(rankings), ks=k, class_names=class_names)
    typer.echo(comparison.table(each_class=len(comparison.class_names) <= MOST_CLASSES))
    if json_file:
        comparison.save(json_file)
    if out:
        save_png(comparison_picture(comparison), out)
        log.info("picture -> %s", out)


@app.command()
def explain(
    ranking: Annotated[Path, typer.Argument(help="Ranking file made by `igd rank`.")],
    model: Annotated[str, typer.Option(help="The ranked model: 'embedded', a checkpoint...")],
    label: Annotated[str, typer.Option("--class", help="Class, by its name or number.")],
    top: Annotated[int, typer.Option(help="Neurons to show.")] = 5,
    images: Annotated[int, typer.Option(help="Images to show for each neuron.")] = 8,
    keep: Annotated[
        int | None,
        typer.Option(help="A neuron serves the classes with it in their top K; an eighth of all."),
    ] = None,
    out: PictureOption = None,
    json_file: JsonOption = None,
    arch: ArchOption = None,
    mean: MeanOption = None,
    std: StdOption = None,
    model_dir: ModelDirOption = None,
    data: DataOption = "embedded:probe",
    data_dir: DataDirOption = None,
    n: CountOption = None,
    size: SizeOption = None,
    batch_size: BatchOption = 100,
    force_ranking: ForceRankingOption = False,
    force: ForceOption = False,
) -> None:
    """Show a class's top neurons: the images that excite each most, the classes it serves.

    Example: `igd explain lo-ir.safetensors --model embedded --class cat --out cat.png`
    """
    _check_outputs(out, json_file, force)
    net = load_model(model, arch, mean=channels(mean), std=channels(std), folder=model_dir)
    probe = images_for(data, data_dir, n, size)
    explanation = explain_class(
        Ranking.load(ranking, net, force=force_ranking),
        net,
        probe,
        label,
        top=top,
        images=images,
        keep=keep,
        batch_size=batch_size,
    )
    typer.echo(explanation.table(probe.labels))
    if json_file:
        explanation.save(json_file)
    if out:
        save_png(explanation_picture(explanation, probe), out)
        log.info("picture -> %s", out)


def _check_outputs(picture: Path | None, json_file: Path | None, force: bool) -> None:
    """Refuse names that cannot be written before any work."""
    if picture:
        check_png(picture)
    for path in (picture, json_file):
        if path:
            refuse_existing(path, force)


def _named(paths: list[Path]) -> dict[str, Ranking]:
    """Rankings by their method, or by their file where methods are alike."""
    if len(set(paths)) < len(paths):
        raise SettingError("A ranking file is named twice; name different ones.")
    rankings = {path: Ranking.load(path) for path in paths}
    methods = Counter(ranking.provenance.get("method") for ranking in rankings.values())
    stems = Counter(path.stem for path in paths)

    def name(path: Path) -> str:
        method = rankings[path].provenance.get("method")
        if method and methods[method] == 1:
            return method
        return path.stem if stems[path.stem] == 1 else str(path)

    return {name(path): ranking for path, ranking in rankings.items()}
