"""`igd predict`."""

import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TextIO

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
    ModelDirOption,
    RankingOption,
    SamplesOption,
    SeedOption,
    SigmaOption,
    SizeOption,
    StdOption,
    TemperatureOption,
    channels,
    check_classes,
    images_for,
    refuse_given,
)
from igdefense.data.data import Data
from igdefense.data.datasets import IMAGE_SUFFIXES
from igdefense.data.sources import FolderImages
from igdefense.defenses.ig_defense import IGDefense, defend, load_defense
from igdefense.defenses.saved import SETTINGS
from igdefense.deploy.exported import SUFFIXES as EXPORTED
from igdefense.deploy.exported import Exported, load_exported
from igdefense.errors import DataError, SettingError
from igdefense.files import refuse_existing, written_whole
from igdefense.models.check import check_model
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.models.load import load_model
from igdefense.progress import track
from igdefense.rankings.ranking import Ranking

MODEL = ("arch", "mean", "std", "model_dir")
DEFENSE = ("sigma", "samples", "temperature", "seed", "force_ranking")
Row = dict[str, str]


@app.command()
def predict(
    ctx: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A model, a folder made by `igd defend`, or a file made by `igd export`.",
        ),
    ],
    images: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="IMAGES", help="Image files or folders of them; otherwise --data is used."
        ),
    ] = None,
    ranking: RankingOption = None,
    keep: KeepOption = None,
    arch: ArchOption = None,
    mean: MeanOption = None,
    std: StdOption = None,
    model_dir: ModelDirOption = None,
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
    trust: Annotated[
        bool, typer.Option("--trust", help="Load a .pt2 file, which can run code that is in it.")
    ] = False,
    force_ranking: ForceRankingOption = False,
    force: ForceOption = False,
) -> None:
    """Classify images with a model, or with the model inside IG-Defense.

    One line of CSV an image: the prediction, its probability and, with a defense, the first guess
    that chose the neurons. Labelled data (`--data`) also gives the accuracy. An exported graph
    tells no first guess and draws its own noise, from --seed and batch by batch.

    Example: `igd predict embedded --ranking lo-ir.safetensors --keep 16 --n 10`

    Example: `igd predict defended cat.png photos/ --size 32 --out predictions.csv`

    Example: `igd predict defended.onnx --n 10`
    """
    if out is not None:
        refuse_existing(out, force)
    net: nn.Module
    if (Path(model) / SETTINGS).is_file():
        refuse_given(ctx, ("ranking", "keep", *MODEL, *DEFENSE), f"{model} is a saved defense")
        net = load_defense(model)
    elif Path(model).suffix in EXPORTED:
        own = tuple(name for name in DEFENSE if name != "seed")
        refuse_given(ctx, ("ranking", "keep", *MODEL, *own), f"{model} is an exported graph")
        net = load_exported(model, seed=seed, trust=trust)
    else:
        if (ranking is None) != (keep is None):
            raise SettingError("A defended prediction needs both --ranking and --keep.")
        if ranking is None:
            refuse_given(ctx, DEFENSE, "a defense needs --ranking and --keep")
        net = load_model(model, arch, mean=channels(mean), std=channels(std), folder=model_dir)
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
        refuse_given(ctx, ("data", "data_dir", "n"), "image files are given")
        rows = _of_files(net, _files(images), size, batch_size)
    else:
        rows = _of_data(net, images_for(data, data_dir, n, size), batch_size)
    if out is None:
        _write(rows, sys.stdout)
    else:
        with written_whole(out) as part, part.open("w", newline="", encoding="utf-8") as file:
            _write(rows, file)
        typer.echo(f"{len(rows)} predictions -> {out}")
    if not images:
        right = sum(row["correct"] == "yes" for row in rows)
        typer.echo(f"accuracy {right / len(rows):.2%} (n = {len(rows)})", err=True)


def _of_files(net: nn.Module, files: list[Path], size: int | None, batch_size: int) -> list[Row]:
    pictures = FolderImages(files, size)
    names = _class_names(net, check_model(net, pictures[:2]))
    unlabelled = Data(pictures, torch.zeros(len(files), dtype=torch.long), names)
    rows = _predictions(net, unlabelled, batch_size)
    return [{"image": str(file), **row} for file, (_, row) in zip(files, rows, strict=True)]


def _of_data(net: nn.Module, data: Data, batch_size: int) -> list[Row]:
    check_classes(data, check_model(net, data.images[:2]))
    rows: list[Row] = []
    predictions = _predictions(net, data, batch_size)
    for label, (predicted, about) in zip(data.labels.tolist(), predictions, strict=True):
        row = {"image": str(len(rows)), "label": data.class_names[label], **about}
        rows.append(row | {"correct": "yes" if predicted == label else "no"})
    return rows


def _predictions(net: nn.Module, data: Data, batch_size: int) -> list[tuple[int, Row]]:
    """Each image's class and what is written about it."""
    rows: list[tuple[int, Row]] = []
    count = -(-len(data) // batch_size)
    for images, _ in track(data.batches(batch_size), "predicting", total=count):
        with torch.no_grad():
            if isinstance(net, IGDefense):  # keyed by position: any batch size, same answer
                keys = range(len(rows), len(rows) + len(images))
                logits, guess = net(images, keys=keys), net.pseudo_label(images, keys=keys)
            else:
                logits, guess = net(images), None
        chances = logits.softmax(1).max(1)
        for i, predicted in enumerate(chances.indices.tolist()):
            row = {"prediction": data.class_names[predicted]}
            row["probability"] = f"{chances.values[i]:.4f}"
            if guess is not None:
                row["first guess"] = data.class_names[int(guess[i].argmax())]
            rows.append((predicted, row))
    return rows


def _files(paths: Sequence[Path]) -> list[Path]:
    """The paths, each folder replaced by the image files in it."""
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = sorted(p for p in path.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES)
        if not inside:
            raise DataError(
                f"{path} holds no images ({', '.join(IMAGE_SUFFIXES)}); for a folder with one "
                f"sub-folder per class, pass --data folder:{path}."
            )
        files += inside
    return files


def _class_names(net: nn.Module, classes: int) -> tuple[str, ...]:
    """CIFAR-10's for the embedded model, numbers for any other."""
    if isinstance(net, Exported):
        base = net.about.get("base")
    else:
        base = weights_fingerprint(net.model if isinstance(net, IGDefense) else net)
    if base == weights_fingerprint(load_model("embedded")):
        return tuple(images_for("embedded:test", None, 1).class_names)
    return tuple(map(str, range(classes)))


def _write(rows: list[Row], file: TextIO) -> None:
    writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
