"""Arguments and options that several commands share."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from igdefense.data.data import Data
from igdefense.data.datasets import ROOTED, load_data
from igdefense.errors import DataError, SettingError


def number(text: str) -> float:
    """`8/255`, `0.03` and `1e-2` alike."""
    try:
        return float(Fraction(text.strip()))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise typer.BadParameter(f"{text!r} is not a number; write 8/255 or 0.03.") from None


def channels(text: str | None) -> tuple[float, ...] | None:
    """`0.49,0.48,0.45`: one number for each channel."""
    if text is None:
        return None
    values = tuple(number(part) for part in text.split(","))
    if len(values) != 3:
        raise SettingError(f"{text!r} has {len(values)} numbers; expected one for each of R,G,B.")
    return values


ModelArg = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="'embedded', a name of `igd models`, a checkpoint (with --arch), robustbench:"
        "DATASET/THREAT/MODEL, timm:NAME, torchvision:NAME, transformers:FOLDER-or-NAME "
        "(?pretrained=false for random weights), or package.module:function.",
    ),
]
ArchOption = Annotated[
    str | None,
    typer.Option(help="Architecture of a checkpoint: resnet18, preact-resnet18-w16, wrn-34-10..."),
]
MeanOption = Annotated[
    str | None, typer.Option(help="Normalisation of a checkpoint that has none inside: R,G,B.")
]
StdOption = Annotated[str | None, typer.Option(help="Its standard deviations: R,G,B.")]
ModelDirOption = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the checkpoints of robustbench: (cifar10/Linf/NAME.pt), timm: and "
        "torchvision: models; $IGDEFENSE_MODELS or the user's cache."
    ),
]
DataOption = Annotated[
    str,
    typer.Option(
        help="embedded:probe|test, cifar10:train|test, cifar100:train|test, "
        "imagenet:train|val|first-5000|robustbench, folder:PATH, hf:PATH-or-NAME[:SPLIT], or a "
        ".npz file; a slice of it: 'embedded:test[500:800]'.",
    ),
]
DataDirOption = Annotated[
    Path | None, typer.Option(help="Folder of CIFAR-10's or CIFAR-100's .bin files, or ImageNet's.")
]
CountOption = Annotated[int | None, typer.Option("--n", help="Use the first N images only.")]
SizeOption = Annotated[
    int | None,
    typer.Option(help="Resize and centre-crop the images of folder:, hf: or imagenet: to this."),
]
SeedOption = Annotated[int, typer.Option(help="Seed of every random draw.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite existing output.")]
RankingOption = Annotated[Path | None, typer.Option(help="Ranking file made by `igd rank`.")]
ForceRankingOption = Annotated[
    bool, typer.Option("--force-ranking", help="Accept a ranking made for other weights.")
]
KeepOption = Annotated[int | None, typer.Option(help="Neurons to keep for each class (k).")]
SigmaOption = Annotated[
    float,
    typer.Option(
        parser=number,
        metavar="NUMBER",
        help="Noise of the first pass, in pixel units; 0 for none.",
    ),
]
SamplesOption = Annotated[int, typer.Option(help="Noise images in the first pass.")]
TemperatureOption = Annotated[
    float,
    typer.Option(
        parser=number,
        metavar="NUMBER",
        help="Of the first guess's softmax: the lower, the harder the guess.",
    ),
]
BatchOption = Annotated[
    int, typer.Option(min=1, help="Images at a time; results do not depend on it.")
]


def images_for(spec: str, data_dir: Path | None, n: int | None, size: int | None = None) -> Data:
    """The data that --data, --data-dir, --n and --size name."""
    return load_data(spec, root=data_dir, n=n, size=size)


def one_of_several(
    spec: str, data_dir: Path | None, n: int | None = None, size: int | None = None
) -> Data:
    """As `images_for`, where --data-dir and --size are for some of several data sets only."""
    root = data_dir if spec.partition(":")[0] in ROOTED else None
    return load_data(spec, root=root, n=n, size=size if spec.startswith("folder:") else None)


def check_classes(data: Data, logits: int) -> None:
    """Refuse data whose classes are not the model's."""
    if len(data.class_names) != logits:
        raise DataError(
            f"The model has {logits} logits but the data {len(data.class_names)} classes; give "
            "data of the model's classes (an .npz file names them all in `class_names`)."
        )


def refuse_given(ctx: typer.Context, names: Sequence[str], why: str) -> None:
    """An error if one of these options is on the command line, where it would do nothing."""
    for name in names:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise SettingError(f"--{name.replace('_', '-')} has no effect here: {why}.")
