"""`export`: the whole classifier, both passes and the noise, as one file that was checked."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from igdefense import __version__
from igdefense.defenses.ig_defense import IGDefense
from igdefense.deploy.deployed import deployed, traced
from igdefense.deploy.onnx_file import with_given_noise, write_onnx
from igdefense.deploy.torch_file import TorchGraph, write_archive
from igdefense.errors import ModelError, SettingError
from igdefense.files import written_whole
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.types import Images

Format = Literal["onnx", "torch-export"]
SUFFIX: dict[Format, str] = {"onnx": ".onnx", "torch-export": ".pt2"}
NoiseChoice = Literal["fresh", "frozen", "off"]
CLOSE = 1e-3  # of the largest logit: more is a graph that computes something else


@dataclass(frozen=True)
class Export:
    """A file that was written, and how far its logits are from PyTorch's on the same noise."""

    path: Path
    format: Format
    random: bool
    difference: float

    def __str__(self) -> str:
        noise = "fresh noise at each call" if self.random else "deterministic"
        return (
            f"{self.format}, dynamic batch, {noise}; logits within {self.difference:.1g} of "
            f"PyTorch's -> {self.path}"
        )


def export(
    model: nn.Module, path: str | Path, *, images: Images, format: Format | None = None
) -> Export:
    """Write the model or defense as one graph with a dynamic batch, for images of that size.

    The format is that of the file's name, `.onnx` or `.pt2`, unless given. The graph is compared
    with PyTorch before the file gets its name.
    """
    path = Path(path)
    form = _format(path, format)
    shown = _batch(images)
    ready = deployed(model, shown)
    program = traced(ready, shown)
    about = json.dumps(_about(model))
    with written_whole(path) as part:
        if form == "onnx":
            write_onnx(program, shown, about, part)
        else:
            write_archive(program, about, part)
        reference = ready if _random(model) else model  # folding was checked on keyed noise
        difference = _difference(reference, part, form, shown)
    return Export(path, form, _random(model), difference)


def with_noise(defense: IGDefense, noise: NoiseChoice) -> IGDefense:
    """The same defense with its noise drawn at each call, frozen by its seed, or left out."""
    changed: dict[str, Any] = {"sigma": 0.0} if noise == "off" else {"noise": noise}
    return defense.varied(**changed)


def _format(path: Path, given: Format | None) -> Format:
    by_name = next((form for form, suffix in SUFFIX.items() if path.suffix == suffix), None)
    form = given or by_name
    if form not in SUFFIX:
        known = " or ".join(f"{name} ({suffix})" for name, suffix in SUFFIX.items())
        raise SettingError(f"{path} names no format; expected {known}.")
    if path.suffix != SUFFIX[form]:
        raise SettingError(f"{path}: a file in the format {form} is named *{SUFFIX[form]}.")
    return form


def _batch(images: Images) -> Images:
    """Three images: tracing would take a batch of one for a constant."""
    if not len(images):
        raise SettingError("There are no images to show what the model takes; give at least one.")
    return images[torch.arange(3) % len(images)].detach().cpu().contiguous()


def _about(model: nn.Module) -> dict[str, Any]:
    base = model.model if isinstance(model, IGDefense) else model
    return {
        "format": "igdefense-export-1",
        "version": __version__,
        "model": type(model).__name__,
        "random": _random(model),
        "base": weights_fingerprint(base),
        "layer": model.ranking.layer if isinstance(model, IGDefense) else None,
        "settings": model.settings if isinstance(model, IGDefense) else {},
    }


def _random(model: nn.Module) -> bool:
    return bool(getattr(model, "random", False))


@torch.no_grad()
def _difference(model: nn.Module, file: Path, form: Format, shown: Images) -> float:
    """The largest difference from PyTorch, on the same noise, at two other sizes of batch."""
    worst, largest = 0.0, 1.0
    for count in (1, 5):
        images = shown[torch.arange(count) % len(shown)]
        wanted, got = _both(model, file, form, images)
        worst = max(worst, float((wanted - got).abs().max()))
        largest = max(largest, float(wanted.abs().max()))
    if not worst <= CLOSE * largest:
        raise ModelError(
            f"The exported graph differs from the model by {worst:.2g} in its logits, so it was "
            "not written. Try the other --format, and please report it."
        )
    return worst


def _both(model: nn.Module, file: Path, form: Format, images: Images) -> tuple[Tensor, Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        wanted: Tensor = model(images)
        torch.manual_seed(0)
        if form == "torch-export":
            return wanted, TorchGraph(file)(images)
        samples = getattr(getattr(model, "noise", None), "samples", 1)
        noise = torch.randn_like(images[None].expand(samples, -1, -1, -1, -1))
        return wanted, with_given_noise(file, images, noise)
