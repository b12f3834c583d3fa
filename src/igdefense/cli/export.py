"""`igd export`."""

from pathlib import Path
from typing import Annotated, Literal

import torch
import typer
from torch import nn

from igdefense.cli.app import app
from igdefense.cli.options import (
    ArchOption,
    ForceOption,
    MeanOption,
    StdOption,
    channels,
    refuse_given,
)
from igdefense.defenses.ig_defense import load_defense
from igdefense.defenses.saved import SETTINGS
from igdefense.deploy.exporting import export, with_noise
from igdefense.files import refuse_existing
from igdefense.models.load import load_model


@app.command("export")
def export_command(
    ctx: typer.Context,
    defense: Annotated[
        str, typer.Argument(metavar="DEFENSE", help="A folder made by `igd defend`, or a model.")
    ],
    out: Annotated[Path, typer.Option(help="File to write: *.onnx or *.pt2.")],
    format: Annotated[
        Literal["onnx", "torch-export"] | None,
        typer.Option(help="For ONNX Runtime or torch.export; otherwise by the file's name."),
    ] = None,
    noise: Annotated[
        Literal["fresh", "frozen", "off"] | None,
        typer.Option(
            help="Drawn at each call, a constant from the defense's seed, or none; otherwise as "
            "it was saved."
        ),
    ] = None,
    size: Annotated[int, typer.Option(min=1, help="Height and width of the images.")] = 32,
    arch: ArchOption = None,
    mean: MeanOption = None,
    std: StdOption = None,
    force: ForceOption = False,
) -> None:
    """Write the whole defended classifier as one graph that runs without this package.

    Both passes and the noise are inside, batches are of any size, and the file is compared with
    PyTorch before it is written. Needs the extra `export` for ONNX.

    Example: `igd export defended --format onnx --out defended.onnx && igd predict defended.onnx`
    """
    refuse_existing(out, force)
    net: nn.Module
    if (Path(defense) / SETTINGS).is_file():
        refuse_given(ctx, ("arch", "mean", "std"), f"{defense} is a saved defense")
        saved = load_defense(defense)
        net = saved if noise is None else with_noise(saved, noise)
    else:
        refuse_given(ctx, ("noise",), f"{defense} is a model without a defense")
        net = load_model(defense, arch, mean=channels(mean), std=channels(std))
    images = torch.rand(3, 3, size, size, generator=torch.Generator().manual_seed(0))
    typer.echo(str(export(net, out, images=images, format=format)))
