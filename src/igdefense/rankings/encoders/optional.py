"""What the encoders from other packages share: a clear word when one is missing, and pictures."""

import importlib
from collections.abc import Iterator
from typing import Any

import torch
from PIL import Image

from igdefense.errors import ModelError
from igdefense.types import Images


def import_optional(module: str, package: str) -> Any:
    """The module, or an error that says what to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == module:
            raise ModelError(
                f"This encoder needs the package {package}: pip install 'igdefense[clip]'."
            ) from error
        raise _unusable(package, error) from error
    except Exception as error:  # a broken torchvision raises a RuntimeError
        raise _unusable(package, error) from error


def _unusable(package: str, error: Exception) -> ModelError:
    reason = one_line(error)
    hint = "reinstall it"
    if "torchvision" in reason:
        hint = "its torchvision does not fit the installed torch, install the two as a pair"
    return ModelError(f"{package} is installed but cannot be imported ({reason}): {hint}.")


def one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def pictures(images: Images) -> Iterator[Image.Image]:
    """8-bit pictures, which is what the encoders' own preprocessing takes."""
    bytes = (images * 255).round().to(torch.uint8).cpu()
    if bytes.shape[1] == 1:
        bytes = bytes.expand(-1, 3, -1, -1)
    for image in bytes:
        yield Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())
