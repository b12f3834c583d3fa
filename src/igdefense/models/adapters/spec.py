"""`NAME?option=value&option=value`, and where its files may be."""

import difflib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from igdefense.errors import ModelError
from igdefense.models.weights_file import SUFFIXES


@dataclass(frozen=True)
class Spec:
    """What comes after `timm:` and its like; options go to the package's own constructor."""

    name: str
    pretrained: bool = True
    seed: int = 0  # of weights that are not pretrained
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> "Spec":
        """`resnet18?pretrained=false&num_classes=10`; values are JSON, or text as it is."""
        name, _, query = text.partition("?")
        options: dict[str, Any] = {}
        for part in filter(None, query.split("&")):
            key, equals, value = part.partition("=")
            if not equals or not key.isidentifier():
                raise ModelError(f"{text!r}: {part!r} is no option; expected NAME?option=value.")
            options[key] = _value(value)
        pretrained, seed = options.pop("pretrained", True), options.pop("seed", 0)
        if not isinstance(pretrained, bool) or not isinstance(seed, int):
            raise ModelError(f"{text!r}: pretrained is true or false, and seed a whole number.")
        return cls(name, pretrained, seed, options)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {"True": True, "False": False, "None": None}.get(text, text)


def nearest(name: str, known: Iterable[str]) -> str:
    """'Did you mean a or b?', or nothing."""
    lower = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), lower, n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(lower[one] for one in close)}?" if close else ""


def folders(given: Path | None) -> list[Path]:
    """Where checkpoints are looked for: the one given, else $IGDEFENSE_MODELS, else these two."""
    if given is not None:
        return [given]
    if named := os.environ.get("IGDEFENSE_MODELS"):
        return [Path(named)]
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return [Path(cache) / "igdefense" / "models", Path("models")]


def local_file(given: Path | None, *stems: str) -> Path | None:
    """The checkpoint of one of these names, in one of the folders."""
    paths = (
        folder / f"{stem}{suffix}"
        for folder in folders(given)
        for stem in stems
        for suffix in (*SUFFIXES, "")
    )
    return next((path for path in paths if path.is_file()), None)
