"""Prompts: class names, bare or in templates, as an encoder reads them."""

from collections import Counter
from collections.abc import Sequence

import torch
from torch.nn.functional import normalize

from igdefense.errors import DataError, SettingError
from igdefense.rankings.encoders.dual import Embeddings
from igdefense.rankings.encoders.encoder import Encoder

BARE = ("{}",)


def embedded(encoder: Encoder, names: Sequence[str], templates: Sequence[str]) -> Embeddings:
    """A vector for each name, the mean over the templates."""
    texts = [encoder.texts([t.format(name) for name in names]).float() for t in templates]
    return normalize(torch.stack(texts).mean(0), dim=1).cpu()


def check_templates(templates: Sequence[str]) -> None:
    for template in templates:
        if template.count("{}") != 1 or template.replace("{}", "").count("{"):
            raise SettingError(
                f"The template {template!r} needs one {{}}, where the class name goes: "
                "'a photo of a {}'."
            )
    if not templates:
        raise SettingError("There is no template; '{}' stands for bare class names.")


def check_names(names: Sequence[str], classes: int) -> None:
    if len(names) != classes:
        raise DataError(
            f"The model has {classes} logits but there are {len(names)} class names; give one for "
            "each (--class-names)."
        )
    empty = [number for number, name in enumerate(names) if not name.strip()]
    if empty:
        raise DataError(f"The name of class {empty[0]} is empty; name every class (--class-names).")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(
            f"The class name {twice[0]!r} is there twice; CD-IR tells classes apart by name."
        )
