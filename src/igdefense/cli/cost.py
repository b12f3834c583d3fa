"""`igd cost`: inference time in forward passes of the base model."""

import json
from pathlib import Path
from typing import Annotated

import typer
from torch import nn

from igdefense.analysis.cost import cost as measure
from igdefense.cli.app import app
from igdefense.cli.options import (
    ArchOption,
    DataDirOption,
    DataOption,
    ForceOption,
    MeanOption,
    ModelArg,
    ModelDirOption,
    SeedOption,
    SizeOption,
    StdOption,
    channels,
    images_for,
)
from igdefense.cli.rivals import (
    GradientName,
    GradientOption,
    HedgeVariant,
    Rival,
    SodefOption,
    build_rival,
    head_for,
    rival_settings,
)
from igdefense.data.data import Data
from igdefense.defenses.ig_defense import defend
from igdefense.errors import ModelError, SettingError
from igdefense.files import refuse_existing, written_whole
from igdefense.models.load import load_model
from igdefense.models.penultimate import recommended_layer
from igdefense.rankings.controls import random_for


@app.command()
def cost(
    model: ModelArg,
    batches: Annotated[
        str, typer.Option(metavar="N,N...", help="Batch sizes to measure at.")
    ] = "1,32,128",
    rounds: Annotated[int, typer.Option(min=1, help="Times each is run, in turns.")] = 7,
    gradients: Annotated[
        bool, typer.Option("--gradients", help="Time a call with its gradient, too.")
    ] = False,
    layer: Annotated[
        str | None, typer.Option(help="Layer that IG-Defense masks; the penultimate one.")
    ] = None,
    arch: ArchOption = None,
    mean: MeanOption = None,
    std: StdOption = None,
    model_dir: ModelDirOption = None,
    data: DataOption = "embedded:test",
    data_dir: DataDirOption = None,
    size: SizeOption = None,
    gradient: GradientOption = None,
    sodef: SodefOption = None,
    seed: SeedOption = 0,
    out: Annotated[Path | None, typer.Option(help="Write the numbers there, as JSON.")] = None,
    force: ForceOption = False,
) -> None:
    """Measure what each defense costs, in forward passes of the base model.

    IG-Defense without and with smoothing (one noise image) and the rivals run in turns with the
    base model; passes are counted by hooks inside it. SODEF needs a head trained for the model.

    Example: `igd cost embedded --batches 1,32`
    """
    sizes = _sizes(batches)
    if out is not None:
        refuse_existing(out, force)
    base = load_model(model, arch, mean=channels(mean), std=channels(std), folder=model_dir)
    images = images_for(data, data_dir, max(sizes), size)
    defenses = _guarded(base, images, layer, seed) | _rivals(base, gradient, sodef, seed)
    found = measure(
        base, defenses, images.images[:], batches=sizes, rounds=rounds, gradients=gradients
    )
    if out is not None:
        with written_whole(out) as part:
            part.write_text(json.dumps(found.to_json(), indent=1) + "\n")
    typer.echo(found.table())


def _guarded(base: nn.Module, data: Data, layer: str | None, seed: int) -> dict[str, nn.Module]:
    """IG-Defense with masks drawn at random: which neurons are kept does not change its time."""
    layer = layer or recommended_layer(base, data.images[:2])
    if layer is None:
        raise SettingError("The penultimate layer is not known: name one by --layer.")
    ranking = random_for(base, data.images[:2], layer, seed)
    keep = max(1, ranking.neurons // 8)
    return {
        "IG-Defense, no smoothing": defend(base, ranking, keep, sigma=0, force=True),
        "IG-Defense": defend(base, ranking, keep, seed=seed, force=True),
    }


def _rivals(
    base: nn.Module, gradient: GradientName | None, path: Path | None, seed: int
) -> dict[str, nn.Module]:
    rivals: dict[str, nn.Module] = {}
    for name, rival, variant in (
        ("hedge (authors)", Rival.HEDGE, HedgeVariant.AUTHORS),
        ("hedge (croce)", Rival.HEDGE, HedgeVariant.CROCE),
        ("anti-adversary", Rival.ANTI_ADVERSARY, HedgeVariant.AUTHORS),
        ("sodef", Rival.SODEF, HedgeVariant.AUTHORS),
    ):
        settings = rival_settings(variant=variant, gradient=gradient)
        try:
            head = head_for(rival.value, base, path)
        except ModelError as error:
            if path is not None:
                raise
            typer.echo(f"sodef is left out. {error}", err=True)
            continue
        rivals[name] = build_rival(rival, base, settings, head, seed)
    return rivals


def _sizes(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise SettingError(f"--batches {text!r}; expected numbers of at least 1, such as 1,32.")
    return [int(part) for part in parts]
