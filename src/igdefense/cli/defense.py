"""`igd tune` and `igd defend`."""

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
    ModelArg,
    ModelDirOption,
    SamplesOption,
    SeedOption,
    SigmaOption,
    SizeOption,
    StdOption,
    TemperatureOption,
    channels,
    check_classes,
    images_for,
    number,
)
from igdefense.defenses.ig_defense import defend
from igdefense.defenses.tune import tune as tune_keep
from igdefense.files import refuse_existing
from igdefense.models.check import check_model
from igdefense.models.load import load_model
from igdefense.rankings.ranking import Ranking


@app.command()
def tune(
    model: ModelArg,
    ranking: Annotated[Path, typer.Option(help="Ranking file made by `igd rank`.")],
    tolerance: Annotated[
        float,
        typer.Option(
            parser=number, metavar="NUMBER", help="Clean accuracy that may be lost: 0.005 is 0.5 %."
        ),
    ] = "0.005",  # type: ignore[assignment]
    arch: ArchOption = None,
    mean: MeanOption = None,
    std: StdOption = None,
    model_dir: ModelDirOption = None,
    data: DataOption = "embedded:probe",
    data_dir: DataDirOption = None,
    n: CountOption = None,
    size: SizeOption = None,
    sigma: SigmaOption = "4/255",  # type: ignore[assignment]
    samples: SamplesOption = 1,
    temperature: TemperatureOption = "0.01",  # type: ignore[assignment]
    batch_size: BatchOption = 100,
    seed: SeedOption = 0,
    force_ranking: ForceRankingOption = False,
) -> None:
    """Find the fewest neurons to keep without losing clean accuracy.

    Prints the clean accuracy for every number of kept neurons and marks the smallest within the
    tolerance: the `--keep` to defend with.

    Example: `igd tune embedded --ranking lo-ir.safetensors`
    """
    net = load_model(model, arch, mean=channels(mean), std=channels(std), folder=model_dir)
    ranked = Ranking.load(ranking, net, force=force_ranking)
    images = images_for(data, data_dir, n, size)
    check_classes(images, check_model(net, images.images[:2]))
    tuning = tune_keep(
        net,
        ranked,
        images,
        tolerance=tolerance,
        sigma=sigma,
        samples=samples,
        temperature=temperature,
        seed=seed,
        batch_size=batch_size,
    )
    typer.echo(tuning.table())
    if tuning.keep is None:
        typer.echo(f"No keep stays within {tolerance:.2%} of the base model.")


@app.command("defend")
def defend_command(
    model: ModelArg,
    ranking: Annotated[Path, typer.Option(help="Ranking file made by `igd rank`.")],
    keep: Annotated[int, typer.Option(help="Neurons to keep for each class (k).")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    arch: ArchOption = None,
    mean: MeanOption = None,
    std: StdOption = None,
    model_dir: ModelDirOption = None,
    sigma: SigmaOption = "4/255",  # type: ignore[assignment]
    samples: SamplesOption = 1,
    temperature: TemperatureOption = "0.01",  # type: ignore[assignment]
    seed: SeedOption = 0,
    force_ranking: ForceRankingOption = False,
    force: ForceOption = False,
) -> None:
    """Save a defended model as a folder: settings, ranking and weights.

    `igd predict` takes the folder in place of a model; in Python, `igdefense.load_defense`.

    Example: `igd defend embedded --ranking lo-ir.safetensors --keep 16 --out defended`
    """
    refuse_existing(out, force)
    net = load_model(model, arch, mean=channels(mean), std=channels(std), folder=model_dir)
    defense = defend(
        net,
        Ranking.load(ranking),
        keep,
        sigma=sigma,
        samples=samples,
        temperature=temperature,
        seed=seed,
        force=force_ranking,
    )
    defense.save(out)
    typer.echo(f"{defense.extra_repr()} -> {out}")
