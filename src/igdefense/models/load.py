"""One string to a model on [0, 1] pixels.

A name of ours, a checkpoint, a model of another package (`timm:NAME`) or `package.module:function`.
"""

import difflib
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from igdefense.errors import ModelError
from igdefense.models.adapters.robustbench import load_robustbench
from igdefense.models.adapters.timm import load_timm
from igdefense.models.adapters.torchvision import load_torchvision
from igdefense.models.adapters.transformers import load_transformers
from igdefense.models.architectures import Channels, build
from igdefense.models.check import check_eval
from igdefense.models.checkpoint import load_checkpoint
from igdefense.models.origin import Origin, mark_origin
from igdefense.models.weights_file import SUFFIXES
from igdefense.models.zoo import EMBEDDED, card_of, load_zoo, nearest, zoo_name

PACKAGES: Mapping[str, Callable[..., nn.Module]] = {
    "robustbench": load_robustbench,
    "timm": load_timm,
    "torchvision": load_torchvision,
    "transformers": load_transformers,
}
FORMS = (
    "'embedded', a name of `igd models`, a checkpoint file with --arch, robustbench:"
    "DATASET/THREAT/MODEL, timm:NAME, torchvision:NAME, transformers:FOLDER-or-NAME "
    "or package.module:function"
)


def load_model(
    spec: str,
    arch: str | None = None,
    *,
    mean: Channels | None = None,
    std: Channels | None = None,
    folder: Path | None = None,
) -> nn.Module:
    """The model in eval mode; `arch`, `mean` and `std` are for checkpoint files.

    `folder` is where the files of models of other packages are (`cifar10/Linf/NAME.pt`,
    `timm/NAME.safetensors`): $IGDEFENSE_MODELS or a folder in the user's cache by default.
    """
    package, _, inside = spec.partition(":")
    foreign = PACKAGES.get(package) if inside and not Path(spec).exists() else None
    if folder is not None and foreign is None:
        raise ModelError(f"A folder of models is for {', '.join(PACKAGES)}; {spec!r} needs none.")
    named = re.fullmatch(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*(?:\.[^\W\d]\w*)*)", spec)
    ours = zoo_name(spec) if spec == "embedded" or not Path(spec).exists() else None
    if ours or foreign or (named and not Path(spec).exists()):
        if not (arch is None and mean is None and std is None):
            raise ModelError(f"arch, mean and std are for checkpoint files; {spec!r} has its own.")
        if ours:
            return _marked(load_zoo(ours), card_of(ours)["arch"])
        origin: Origin = {"arch": None, "classes": None, "function": spec}
        if foreign:
            return mark_origin(foreign(inside, folder), origin)
        assert named is not None
        return mark_origin(_from_function(named[1], named[2]), origin)
    if not Path(spec).exists() and not spec.endswith(SUFFIXES):
        raise ModelError(f"No model {spec!r}; expected {FORMS}. {nearest(spec)}")
    if arch is None:
        raise ModelError(f"{spec} is a checkpoint: name its architecture with --arch (resnet18).")
    return _marked(load_checkpoint(spec, arch, mean=mean, std=std), arch)


def rebuild(origin: Origin, weights: Mapping[str, Tensor]) -> nn.Module:
    """The model an origin stands for, with these weights."""
    if origin["arch"] is not None:
        model = mark_origin(build(origin["arch"], origin["classes"]), origin).eval()
    else:
        package, _, inside = str(origin["function"]).partition(":")
        if package in PACKAGES:
            model = mark_origin(PACKAGES[package](inside, None, weights=False), origin)
        else:
            model = load_model(str(origin["function"]))
    try:
        model.load_state_dict(dict(weights))
    except RuntimeError as error:
        raise ModelError(f"The saved weights do not fit {origin}: {error}") from error
    return model


def _marked(model: nn.Module, arch: str) -> nn.Module:
    heads = [module for module in model.modules() if isinstance(module, nn.Linear)]
    return mark_origin(model, {"arch": arch, "classes": heads[-1].out_features, "function": None})


def embedded_card() -> dict[str, Any]:
    """How the embedded model was made and how well it does."""
    return card_of(EMBEDDED)


def _from_function(module_name: str, function_name: str) -> nn.Module:
    spec = f"{module_name}:{function_name}"
    with _current_folder_importable():
        function: object = _import(module_name)
        for part in function_name.split("."):
            if not hasattr(function, part):
                close = difflib.get_close_matches(part, dir(function), n=3)
                hint = f"Did you mean {' or '.join(close)}?" if close else "Check its spelling."
                raise ModelError(f"{module_name} has no {function_name!r}. {hint}")
            function = getattr(function, part)
        if not callable(function):
            raise ModelError(
                f"{spec} is a {type(function).__name__}; expected a function that takes no "
                "arguments and returns the model."
            )
        try:
            model: object = function()
        except (Exception, SystemExit) as error:
            raise ModelError(f"{spec} failed with {_one_line(error)}.") from error
    if not isinstance(model, nn.Module):
        raise ModelError(f"{spec} returned a {type(model).__name__}; expected an nn.Module.")
    try:
        check_eval(model)
    except ModelError as error:
        raise ModelError(f"{spec}: {error}") from None
    return model


def _import(name: str) -> ModuleType:
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise ModelError(
                f"There is no module {error.name!r}; install it, or run from the folder it is in."
            ) from error
        raise ModelError(f"Importing {name} failed with {_one_line(error)}.") from error
    except (Exception, SystemExit) as error:
        raise ModelError(f"Importing {name} failed with {_one_line(error)}.") from error


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__


@contextmanager
def _current_folder_importable() -> Iterator[None]:
    """As under `python -m`."""
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
