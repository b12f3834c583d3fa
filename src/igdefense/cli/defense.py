"""`igd tune`, `igd defend` and `igd predict`."""

import csv
import sys
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import nn

from igdefense.cli.app import app
from igdefense.cli.options import (
    ArchOption,
    BatchOption,
    CountOption,
    DataDirOption,
    DataOption,
    ForceOption,
    ForceRankingOption,
    KeepOption,
    MeanOption,
    ModelArg,
    RankingOption,
    SamplesOption,
    SeedOption,
    SigmaOption,
    SizeOption,
    StdOption,
    TemperatureOption,
    channels,
    images_for,
    number,
)
from igdefense.data.data import Data
from igdefense.data.datasets import load_images
from igdefense.defenses.ig_defense import IGDefense, defend, load_defense
from igdefense.defenses.saved import SETTINGS
from igdefense.defenses.tune import tune as tune_keep
from igdefense.errors import DataError, SettingError
from igdefense.files import refuse_existing, written_whole
from igdefense.models.check import check_model
from igdefense.models.load import load_model
from igdefense.progress import track
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

    Example: `igd tune embedded --ranking lo-ir.safetensors`
    """
    net = load_model(model, arch, mean=channels(mean), std=channels(std))
    tuning = tune_keep(
        net,
        Ranking.load(ranking, net, force=force_ranking),
        images_for(data, data_dir, n, size),
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
    sigma: SigmaOption = "4/255",  # type: ignore[assignment]
    samples: SamplesOption = 1,
    temperature: TemperatureOption = "0.01",  # type: ignore[assignment]
    seed: SeedOption = 0,
    force_ranking: ForceRankingOption = False,
    force: ForceOption = False,
) -> None:
    """Save a defended model as a folder: settings, ranking and weights.

    Example: `igd defend embedded --ranking lo-ir.safetensors --keep 16 --out defended`
    """
    refuse_existing(out, force)
    net = load_model(model, arch, mean=channels(mean), std=channels(std))
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


@app.command()
def predict(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model, or a folder made by `igd defend`.")
    ],
    images: Annotated[
        list[Path] | None, typer.Argument(help="Image files; otherwise --data is used.")
    ] = None,
    ranking: RankingOption = None,
    keep: KeepOption = None,
    arch: ArchOption = None,
    mean: MeanOption = None,
    std: StdOption = None,
    data: DataOption = "embedded:test",
    data_dir: DataDirOption = None,
    n: CountOption = None,
    size: SizeOption = None,
    sigma: SigmaOption = "4/255",  # type: ignore[assignment]
    samples: SamplesOption = 1,
    temperature: TemperatureOption = "0.01",  # type: ignore[assignment]
    batch_size: BatchOption = 100,
    seed: SeedOption = 0,
    out: Annotated[Path | None, typer.Option(help="CSV file to write instead.")] = None,
    force_ranking: ForceRankingOption = False,
    force: ForceOption = False,
) -> None:
    """Classify images with a model, or with the model inside IG-Defense.

    Example: `igd predict embedded --ranking lo-ir.safetensors --keep 16 --n 10`
    """
    if out is not None:
        refuse_existing(out, force)
    net: nn.Module
    if (Path(model) / SETTINGS).is_file():
        net = load_defense(model)
    else:
        net = load_model(model, arch, mean=channels(mean), std=channels(std))
        if (ranking is None) != (keep is None):
            raise SettingError("A defended prediction needs both --ranking and --keep.")
        if ranking is not None and keep is not None:
            net = defend(
                net,
                Ranking.load(ranking),
                keep,
                sigma=sigma,
                samples=samples,
                temperature=temperature,
                seed=seed,
                force=force_ranking,
            )
    if images:
        pictures = load_images(images, size=size)
        names = _class_names(net, pictures[:1], data)
        labelled = Data(pictures, torch.zeros(len(pictures), dtype=torch.long), names)
        rows = _predictions(net, labelled, batch_size, [str(path) for path in images])
        rows = [{k: v for k, v in row.items() if k not in ("label", "correct")} for row in rows]
    else:
        rows = _predictions(net, images_for(data, data_dir, n, size), batch_size)
    if out is None:
        _write(rows, sys.stdout)
    else:
        with written_whole(out) as part, part.open("w", newline="") as file:
            _write(rows, file)
        typer.echo(f"{len(rows)} predictions -> {out}")
    if not images:
        right = sum(row["correct"] == "yes" for row in rows)
        typer.echo(f"accuracy {right / len(rows):.2%} (n = {len(rows)})", err=True)


def _predictions(
    net: nn.Module, data: Data, batch_size: int, names: list[str] | None = None
) -> list[dict[str, str]]:
    classes = check_model(net, data.images[:2])
    if classes != len(data.class_names):
        raise DataError(
            f"The model has {classes} logits but the data {len(data.class_names)} classes."
        )
    rows: list[dict[str, str]] = []
    count = -(-len(data) // batch_size)
    for images, labels in track(data.batches(batch_size), "predicting", total=count):
        with torch.no_grad():
            if isinstance(net, IGDefense):  # keyed by position: any batch size, same answer
                keys = range(len(rows), len(rows) + len(images))
                logits, guess = net(images, keys=keys), net.pseudo_label(images, keys=keys)
            else:
                logits, guess = net(images), None
        chances = logits.softmax(1).max(1)
        for i, label in enumerate(labels.tolist()):
            predicted = int(chances.indices[i])
            row = {"image": names[len(rows)] if names else str(len(rows))}
            row |= {"label": data.class_names[label], "prediction": data.class_names[predicted]}
            row |= {"probability": f"{chances.values[i]:.4f}"}
            if guess is not None:
                row["first guess"] = data.class_names[int(guess[i].argmax())]
            row["correct"] = "yes" if predicted == label else "no"
            rows.append(row)
    return rows


def _class_names(net: nn.Module, images: torch.Tensor, spec: str) -> tuple[str, ...]:
    classes = check_model(net, images)
    names = tuple(images_for(spec, None, 1).class_names) if spec.startswith("embedded") else ()
    return names if len(names) == classes else tuple(map(str, range(classes)))


def _write(rows: list[dict[str, str]], file: object) -> None:
    writer = csv.DictWriter(file, rows[0].keys())  # type: ignore[arg-type]
    writer.writeheader()
    writer.writerows(rows)
