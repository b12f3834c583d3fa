"""The models that come along, by name, each with its card."""

import difflib
import importlib.resources
import json
import logging
from importlib.resources.abc import Traversable
from typing import Any

from torch import nn

from igdefense.errors import ModelError
from igdefense.models.checkpoint import load_checkpoint

EMBEDDED = "resnet18-w16-fat"
PREFIX = "zoo:"


def zoo() -> tuple[str, ...]:
    """The names, the embedded model's first."""
    weights = importlib.resources.files("igdefense.models") / "weights"
    files = [file.name for file in weights.iterdir()] if weights.is_dir() else []
    names = {name.removesuffix(".json") for name in files if name.endswith(".json")}
    return tuple(sorted(names, key=lambda name: (name != EMBEDDED, name)))


def zoo_name(spec: str) -> str | None:
    """The model that `embedded`, `zoo:NAME` or a plain name stands for, None for other strings."""
    if spec == "embedded":
        return EMBEDDED
    if spec.startswith(PREFIX):
        name = spec.removeprefix(PREFIX)
        if name not in zoo():
            raise ModelError(f"The zoo has no model {name!r}. {nearest(name)}")
        return name
    return spec if spec in zoo() else None


def nearest(name: str) -> str:
    """A hint at the names most like this one."""
    close = difflib.get_close_matches(name, ("embedded", *zoo()), n=3, cutoff=0.5)
    return f"Did you mean {' or '.join(close)}?" if close else "`igd models` lists them."


def card_of(name: str) -> dict[str, Any]:
    """How the model was made and how well it does."""
    card: dict[str, Any] = json.loads(shipped(name, ".json").read_text(encoding="utf-8"))
    return card


def load_zoo(name: str) -> nn.Module:
    """The model in single precision, whatever its file has."""
    with importlib.resources.as_file(shipped(name, ".safetensors")) as path:
        return load_checkpoint(path, card_of(name)["arch"], level=logging.DEBUG)


def shipped(name: str, suffix: str) -> Traversable:
    """A file of the model, in this installation."""
    file = importlib.resources.files("igdefense.models") / "weights" / f"{name}{suffix}"
    if not file.is_file():
        raise ModelError(f"{name}{suffix} is not in this installation: reinstall igdefense.")
    return file
