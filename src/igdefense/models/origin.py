"""Where a model came from, so that a saved defense can build it again."""

from typing import TypedDict

from torch import nn

_ATTRIBUTE = "igdefense_origin"


class Origin(TypedDict):
    """An architecture of ours with its number of classes, or the function that made the model."""

    arch: str | None
    classes: int | None
    function: str | None


def mark_origin(model: nn.Module, origin: Origin) -> nn.Module:
    """The same model, which now remembers where it came from."""
    setattr(model, _ATTRIBUTE, origin)
    return model


def origin_of(model: nn.Module) -> Origin | None:
    """None for a model that was made in Python."""
    origin: Origin | None = getattr(model, _ATTRIBUTE, None)
    return origin
