"""The core: can the embedded model be loaded, defended and asked?"""

import platform
import sys
from importlib import metadata

import torch

from igdefense import __version__
from igdefense.data.datasets import load_data
from igdefense.defenses.ig_defense import IGDefense
from igdefense.doctor.finding import Finding
from igdefense.models.load import load_model
from igdefense.rankings.leave_one_out import leave_one_out

NAMED = ("torch", "numpy", "scipy", "safetensors", "pyautoattack")


def versions() -> Finding:
    """What is running."""
    told = ", ".join(f"{name} {_version(name)}" for name in NAMED)
    system = f"{platform.system()} {platform.machine()}"
    says = f"igdefense {__version__}, Python {platform.python_version()}, {told} ({system})"
    return Finding("versions", "ok", says)


def core() -> Finding:
    """The whole path to a defended prediction, on ten embedded images."""
    try:
        model, data = load_model("embedded"), load_data("embedded:probe")[:10]
        ranking = leave_one_out(model, data, "layer4", progress=False)
        with torch.no_grad():
            logits = IGDefense(model, ranking, keep=16)(data.images)
    except Exception as error:  # whatever a damaged installation raises
        reason = (str(error).strip().splitlines() or [""])[0]
        says = f"{type(error).__name__}: {reason}"
        todo = f"reinstall: {sys.executable} -m pip install --force-reinstall igdefense"
        return Finding("core", "broken", says, todo, core=True)
    right = int((logits.argmax(1) == data.labels).sum())
    return Finding("core", "ok", f"ranked, defended and predicted ({right} of 10 right)", core=True)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"
