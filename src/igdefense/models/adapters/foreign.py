"""Import other packages in spite of their known import faults, and leave nothing behind.

- torchvision built for another torch misses operators and does not import: two of them are
  declared, so that everything but those operators works.
- robustbench imports `autoattack`, `gdown`, `pkg_resources` and others that may be absent, and that
  loading a model does not need: while it is imported, and no longer, stand-ins take their place.
"""

import importlib
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch

from igdefense.errors import ModelError

INSTALL = {
    "robustbench": "pip install --no-deps robustbench, then pip install 'igdefense[zoo]' (its own "
    "pin of timm is older than what others need)",
    "timm": "pip install 'igdefense[zoo]'",
    "torchvision": "pip install 'igdefense[zoo]'",
    "transformers": "pip install 'igdefense[clip]'",
    "open_clip": "pip install 'igdefense[clip]'",
    "huggingface_hub": "pip install 'igdefense[clip]'",
}
PACKAGE = {"open_clip": "open_clip_torch"}  # where the package has another name than its module
NEEDS_TORCHVISION = ("open_clip", "robustbench", "timm", "transformers")
SPARE = ("autoattack", "gdown", "geotorch", "pandas", "pkg_resources", "requests", "torchdiffeq")
_declared: list[torch.library.Library] = []  # operators live as long as their library


def import_foreign(name: str) -> Any:
    """The package, or an error that says what to install."""
    root = name.partition(".")[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what those packages import in turn
        try:
            if root in NEEDS_TORCHVISION and find_spec("torchvision"):
                _import_torchvision()
            if root == "torchvision":
                _import_torchvision()
            if root == "robustbench":
                return _import_with_stand_ins(name)
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name == root:
                hint = INSTALL.get(root, f"pip install {root}")
                package = PACKAGE.get(root, root)
                raise ModelError(f"This needs the package {package}: {hint}.") from error
            raise _unusable(root, error) from error
        except Exception as error:  # whatever a foreign package raises when it is imported
            raise _unusable(root, error) from error


def one_line(error: BaseException) -> str:
    """The first line of what an exception says."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _unusable(package: str, error: Exception) -> ModelError:
    reason, hint = one_line(error), "reinstall it"
    if "torchvision::" in reason:
        hint = "its torchvision does not fit the installed torch, install the two as a pair"
    return ModelError(f"{package} is installed but cannot be imported ({reason}): {hint}.")


def _import_torchvision() -> None:
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        _forget("torchvision")
        if not _declared:
            library = torch.library.Library("torchvision", "DEF")
            for name in ("nms", "qnms"):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _declared.append(library)
        importlib.import_module("torchvision")


def _forget(package: str) -> None:
    """Remove what an import that failed halfway has left."""
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{package}.")]:
        del sys.modules[name]


def _import_with_stand_ins(name: str) -> Any:
    """Import, with a stand-in for each package of SPARE that is absent."""
    root = name.partition(".")[0]
    if root in sys.modules:
        return importlib.import_module(name)
    absent = [spare for spare in SPARE if spare not in sys.modules and not find_spec(spare)]
    try:
        with _standing_in(absent):
            return importlib.import_module(name)
    except BaseException:
        _forget(root)
        raise


@contextmanager
def _standing_in(packages: list[str]) -> Iterator[None]:
    names = [*packages, *(["autoattack.state"] if "autoattack" in packages else [])]
    try:
        sys.modules.update({name: _StandIn(name) for name in names})
        yield
    finally:
        for name in names:
            sys.modules.pop(name, None)


class _StandIn(ModuleType):
    """Can be imported from; what is taken from it says at its first use what is missing."""

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        package = self.__name__.partition(".")[0]

        def missing(*_: object, **__: object) -> None:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)

        return missing
