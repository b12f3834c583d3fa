"""`igd layers` and `igd rank`."""

from enum import StrEnum
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
    MeanOption,
    ModelArg,
    SeedOption,
    SizeOption,
    StdOption,
    channels,
    images_for,
    refuse_given,
)
from igdefense.errors import LayerError, SettingError
from igdefense.files import refuse_existing
from igdefense.layers import layers as list_layers
from igdefense.models.architectures import default_layer
from igdefense.models.check import check_model
from igdefense.models.load import load_model
from igdefense.rankings.controls import random_for
from igdefense.rankings.leave_one_out import leave_one_out


class Method(StrEnum):
    LO_IR = "lo-ir"
    RANDOM = "random"


class ChangeKind(StrEnum):
    SIGNED = "signed"
    ABSOLUTE = "absolute"


@app.command()
def layers(
    model: ModelArg,
    arch: ArchOption = None,
    mean: MeanOption = None,
    std: StdOption = None,
    data: DataOption = "embedded:test",
    data_dir: DataDirOption = None,
    size: SizeOption = None,
) -> None:
    """List the layers whose neurons can be ranked.

    Any layer with one tensor as output, in the order the model calls them, by the name that
    `igd rank --layer` takes.

    Example: `igd layers embedded`
    """
    net = load_model(model, arch, mean=channels(mean), std=channels(std))
    images = images_for(data, data_dir, 1, size).images[:1]
    check_model(net, images)
    default = default_layer(net)
    found = list_layers(net, images)
    if not found:
        raise LayerError(f"{type(net).__name__} has no layer inside whose output has neurons.")
    width = max(len(layer.name) for layer in found)
    typer.echo(f"{'layer':<{width}}  {'neurons':>7}  output")
    for layer in found:
        shape = " x ".join(map(str, layer.shape))
        mark = "  <- penultimate: the paper's choice" if layer.name == default else ""
        typer.echo(f"{layer.name:<{width}}  {layer.neurons:>7}  {shape} ({layer.kind}){mark}")


@app.command()
def rank(
    ctx: typer.Context,
    model: ModelArg,
    out: Annotated[Path, typer.Option(help="Ranking file to write (.safetensors).")],
    layer: Annotated[
        str | None, typer.Option(help="Layer by its dotted name; the penultimate by default.")
    ] = None,
    method: Annotated[Method, typer.Option(help="How to rank.")] = Method.LO_IR,
    change: Annotated[
        ChangeKind, typer.Option(help="LO-IR: the paper's signed change, or its size.")
    ] = ChangeKind.SIGNED,
    arch: ArchOption = None,
    mean: MeanOption = None,
    std: StdOption = None,
    data: DataOption = "embedded:probe",
    data_dir: DataDirOption = None,
    n: CountOption = None,
    size: SizeOption = None,
    batch_size: BatchOption = 100,
    seed: SeedOption = 0,
    force: ForceOption = False,
) -> None:
    """Rank a layer's neurons by their importance to each class.

    LO-IR: a neuron matters to a class as much as the class's logit falls without it, on average
    over the class's images. `--method random` draws the ranking instead, as a control.

    Example: `igd rank embedded --layer layer4 --out lo-ir.safetensors`
    """
    refuse_existing(out, force)
    net = load_model(model, arch, mean=channels(mean), std=channels(std))
    probe = images_for(data, data_dir, n, size)
    name = layer or default_layer(net)
    if name is None:
        raise SettingError("This model has no usual layer: name one by --layer (`igd layers`).")
    if method is Method.RANDOM:
        refuse_given(ctx, ("change",), "a random ranking measures no change")
        ranking = random_for(net, probe.images[:2], name, seed)
    else:
        refuse_given(ctx, ("seed",), "LO-IR draws no random numbers")
        ranking = leave_one_out(net, probe, name, change=change.value, batch_size=batch_size)
    ranking.save(out)
    typer.echo(f"{ranking} -> {out}")
