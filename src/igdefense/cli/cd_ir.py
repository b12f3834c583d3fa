"""The options of CD-IR."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from igdefense.errors import DataError
from igdefense.rankings.cache import Cache


class Similarity(StrEnum):
    SOFT_WPMI = "soft-wpmi"
    WPMI = "wpmi"
    RANK_REORDER = "rank-reorder"
    COSINE = "cosine"
    COSINE_CUBED = "cosine-cubed"


CD_IR_OPTIONS = ("encoder", "similarity", "top_k", "class_names", "template", "cache")
EncoderOption = Annotated[
    str,
    typer.Option(
        metavar="ENCODER",
        help="CD-IR: embedded, open_clip:ViT-B-16/openai (the paper's), open_clip:FOLDER, "
        "transformers:FOLDER-or-NAME.",
    ),
]
SimilarityOption = Annotated[
    Similarity, typer.Option(help="CD-IR: how activations are held against the class names.")
]
TopKOption = Annotated[
    int | None,
    typer.Option(help="CD-IR: images to look at for each neuron; soft-wpmi 100, wpmi 28."),
]
ClassNamesOption = Annotated[
    str | None,
    typer.Option(help="CD-IR: text file, a name a line, or cat,dog,...; the data's by default."),
]
TemplateOption = Annotated[
    list[str] | None,
    typer.Option(help="CD-IR: prompt such as 'a photo of a {}'; repeat it to average; bare names."),
]
CacheOption = Annotated[
    Path | None, typer.Option(help="CD-IR: folder of embeddings and activations; user's cache.")
]


def names_from(text: str | None) -> list[str] | None:
    """A file's lines, or the names between the commas."""
    if text is None:
        return None
    path = Path(text)
    if not path.is_file():
        if path.suffix == ".txt":
            raise DataError(f"{path} is missing; expected a text file with a class name a line.")
        return [name.strip() for name in text.split(",")]
    try:
        content = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a text file; expected a class name a line.") from error
    return [line.strip() for line in content.rstrip().split("\n")]


def cache_at(folder: Path | None) -> Cache | None:
    return None if folder is None else Cache(folder)
