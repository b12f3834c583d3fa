"""`igd layers` and `igd rank`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import torch
import typer

from igdefense.cli.app import app
from igdefense.cli.backends import (
    AddressOption,
    BackendName,
    BackendOption,
    CpusOption,
    GpusOption,
    WorkersOption,
    backend_for,
)
from igdefense.cli.cd_ir import (
    CD_IR_OPTIONS,
    CacheOption,
    ClassNamesOption,
    EncoderOption,
    Similarity,
    SimilarityOption,
    TemplateOption,
    TopKOption,
    cache_at,
    names_from,
)
from igdefense.cli.options import (
    ArchOption,
    BatchOption,
    CountOption,
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
    number,
    refuse_given,
)
from igdefense.data.datasets import read_masks
from igdefense.errors import LayerError, SettingError
from igdefense.files import refuse_existing
from igdefense.layers import find
from igdefense.layers import layers as list_layers
from igdefense.models.check import check_model
from igdefense.models.load import load_model
from igdefense.models.penultimate import recommended_layer
from igdefense.randomness import generator
from igdefense.rankings.clip_dissect import clip_dissect_layers
from igdefense.rankings.controls import inverted, random_for
from igdefense.rankings.leave_one_out import leave_one_out
from igdefense.rankings.net_dissect import net_dissect
from igdefense.rankings.prompts import BARE
from igdefense.rankings.ranking import Ranking
from igdefense.running.local import Local

SPREAD = ("workers", "backend")


class Method(StrEnum):
    LO_IR = "lo-ir"
    CD_IR = "cd-ir"
    NET_DISSECT = "net-dissect"
    RANDOM = "random"
    INVERTED = "inverted"


class ChangeKind(StrEnum):
    SIGNED = "signed"
    ABSOLUTE = "absolute"


@app.command()
def layers(
    ctx: typer.Context,
    model: ModelArg,
    arch: ArchOption = None,
    mean: MeanOption = None,
    std: StdOption = None,
    model_dir: ModelDirOption = None,
    data: DataOption = "embedded:test",
    data_dir: DataDirOption = None,
    size: SizeOption = None,
) -> None:
    """List the layers whose neurons can be ranked.

    Any layer with one tensor as output, in the order the model calls them, by the name that
    `igd rank --layer` takes; `@nhwc` marks an output with its neurons on the last axis.

    Example: `igd layers embedded`

    Example: `igd layers 'timm:swin_tiny_patch4_window7_224?pretrained=false'`
    """
    net = load_model(model, arch, mean=channels(mean), std=channels(std), folder=model_dir)
    given = ctx.get_parameter_source("data")
    usual = getattr(net, "usual_size", None) if given and given.name == "DEFAULT" else None
    images = (  # any image shows the layers, if it has the model's size
        torch.rand(1, 3, usual, usual, generator=generator("layers"))
        if usual
        else images_for(data, data_dir, 1, size).images[:1]
    )
    check_model(net, images)
    default = recommended_layer(net, images)
    found = list_layers(net, images)
    if not found:
        raise LayerError(f"{type(net).__name__} has no layer inside whose output has neurons.")
    width = max(len(layer.name) for layer in found)
    typer.echo(f"{'layer':<{width}}  {'neurons':>7}  output")
    for layer in found:
        shape = " x ".join(map(str, layer.shape))
        mark = "  <- recommended: penultimate" if layer.name == default else ""
        typer.echo(f"{layer.name:<{width}}  {layer.neurons:>7}  {shape} ({layer.kind}){mark}")


@app.command()
def rank(
    ctx: typer.Context,
    model: ModelArg,
    out: Annotated[
        Path,
        typer.Option(
            help="Ranking file to write (.safetensors); of several layers, the folder for them."
        ),
    ],
    layer: Annotated[
        list[str] | None,
        typer.Option(help="Layer by its dotted name, may be repeated; the penultimate by default."),
    ] = None,
    method: Annotated[Method, typer.Option(help="How to rank.")] = Method.LO_IR,
    change: Annotated[
        ChangeKind, typer.Option(help="LO-IR: the paper's signed change, or its size.")
    ] = ChangeKind.SIGNED,
    encoder: EncoderOption = "embedded",
    similarity: SimilarityOption = Similarity.SOFT_WPMI,
    top_k: TopKOption = None,
    class_names: ClassNamesOption = None,
    template: TemplateOption = None,
    cache: CacheOption = None,
    quantile: Annotated[
        float,
        typer.Option(
            parser=number, metavar="NUMBER", help="NetDissect: share of activations that count."
        ),
    ] = "0.005",  # type: ignore[assignment]
    masks: Annotated[
        Path | None,
        typer.Option(help="NetDissect: .npy file, the class of every pixel of every image or -1."),
    ] = None,
    of: Annotated[
        Path | None, typer.Option(help="Inverted: the ranking file to invert; else LO-IR.")
    ] = None,
    arch: ArchOption = None,
    mean: MeanOption = None,
    std: StdOption = None,
    model_dir: ModelDirOption = None,
    data: DataOption = "embedded:probe",
    data_dir: DataDirOption = None,
    n: CountOption = None,
    size: SizeOption = None,
    batch_size: BatchOption = 100,
    workers: WorkersOption = 1,
    backend: BackendOption = BackendName.LOCAL,
    address: AddressOption = "auto",
    gpus_per_worker: GpusOption = None,
    cpus_per_worker: CpusOption = 1,
    seed: SeedOption = 0,
    force: ForceOption = False,
) -> None:
    """Rank a layer's neurons by their importance to each class.

    LO-IR: a neuron matters to a class as much as the class's logit falls without it, on average
    over the class's images. CD-IR: as much as it is active on images that an image-text encoder
    holds to be of the class. NetDissect: as much as the pixels where it is most active overlap the
    class's. The controls: `--method random` draws the ranking, `inverted` turns one upside down.

    Example: `igd rank embedded --layer layer4 --out lo-ir.safetensors`
    """
    names = list(dict.fromkeys(layer or []))
    outputs = {name: out / f"{name}.safetensors" for name in names} if len(names) > 1 else {}
    for path in outputs.values() or (out,):
        refuse_existing(path, force)
    _refuse_idle(ctx, method, of)
    where = backend_for(ctx, backend, workers, address, gpus_per_worker, cpus_per_worker)
    net = load_model(model, arch, mean=channels(mean), std=channels(std), folder=model_dir)
    if of is not None:
        _save(inverted(Ranking.load(of, net)), out)
        return
    probe = images_for(data, data_dir, n, size)
    check_model(net, probe.images[:2])
    usual = None if names else recommended_layer(net, probe.images[:2])
    if not names and usual is None:
        raise SettingError("This model has no usual layer: name one by --layer (`igd layers`).")
    names = names or [str(usual)]
    for name in names:
        find(net, name)  # a mistake in the last name shows before any work
    if method is Method.CD_IR:
        rankings = clip_dissect_layers(
            net,
            probe,
            names,
            encoder=encoder,
            similarity=similarity.value,
            class_names=names_from(class_names),
            templates=template or BARE,
            top_k=top_k,
            batch_size=batch_size,
            cache=cache_at(cache),
            backend=where,
        )
        for name, ranking in rankings.items():
            _save(ranking, outputs.get(name, out))
        return
    for name in names:
        if method is Method.RANDOM:
            ranking = random_for(net, probe.images[:2], name, seed)
        elif method is Method.NET_DISSECT:
            ranking = net_dissect(
                net,
                probe,
                name,
                quantile=quantile,
                masks=read_masks(masks)[:n] if masks else None,
                batch_size=batch_size,
                backend=where,
            )
        else:
            ranking = leave_one_out(
                net,
                probe,
                name,
                change=change.value,
                batch_size=batch_size,
                backend=None if where == Local() else where,  # alone, progress neuron by neuron
            )
            ranking = inverted(ranking) if method is Method.INVERTED else ranking
        _save(ranking, outputs.get(name, out))


def _save(ranking: Ranking, path: Path) -> None:
    ranking.save(path)
    typer.echo(f"{ranking} -> {path}")


def _refuse_idle(ctx: typer.Context, method: Method, of: Path | None) -> None:
    """Refuse what another method would need."""
    if of is not None and method is Method.INVERTED:
        idle = ("layer", "change", "data", "data_dir", "n", "size", "batch_size", *SPREAD)
        refuse_given(ctx, idle, "--of names a finished ranking")
    if method is not Method.INVERTED:
        refuse_given(ctx, ("of",), "only --method inverted reads a ranking")
    if method is not Method.NET_DISSECT:
        refuse_given(ctx, ("quantile", "masks"), "they are settings of --method net-dissect")
    if method not in (Method.LO_IR, Method.INVERTED):
        why = f"a {method.value} ranking measures no change"
        refuse_given(ctx, ("change",), why)
    if method is not Method.CD_IR:
        refuse_given(ctx, CD_IR_OPTIONS, "they are settings of --method cd-ir")
    if method is Method.RANDOM:
        refuse_given(ctx, SPREAD, "a random ranking is no work")
    if method is not Method.RANDOM:
        refuse_given(ctx, ("seed",), f"{method.value} draws no random numbers")
