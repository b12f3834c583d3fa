"""The models of RobustBench's zoo, built by its package, from checkpoints on this disk."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from igdefense.errors import ModelError
from igdefense.models.adapters.adapted import Adapted, drawn
from igdefense.models.adapters.foreign import import_foreign, one_line
from igdefense.models.adapters.spec import folders, local_file, nearest
from igdefense.models.state import State, fitted, unwrap
from igdefense.models.weights_file import read_weights

NORMALIZATION = ("mu", "sigma", "mean", "std", "normalize.mean", "normalize.std")
LAST = ("Kireev2021Effectiveness", "Andriushchenko2020Understanding")  # of two stored, the last
Entry = Mapping[str, Any]


def from_robustbench(
    model_name: str,
    dataset: str = "cifar10",
    threat_model: str = "Linf",
    *,
    model_dir: Path | str | None = None,
) -> nn.Module:
    """A model of RobustBench by the names its `load_model` takes; nothing is downloaded.

    The checkpoint is `model_dir/dataset/threat_model/model_name.pt`, where RobustBench keeps it;
    `model_dir` is $IGDEFENSE_MODELS or a folder in the user's cache by default.
    """
    folder = None if model_dir is None else Path(model_dir)
    return load_robustbench(f"{dataset}/{threat_model}/{model_name}", folder)


def load_robustbench(name: str, folder: Path | None = None, *, weights: bool = True) -> Adapted:
    """`DATASET/THREAT/MODEL`; without `weights`, initial ones that depend on nothing."""
    entry = _entry(name)
    what = f"robustbench:{name}"
    if not isinstance(entry.get("gdrive_id"), str) or not entry["gdrive_id"]:
        raise ModelError(
            f"{what} has no single checkpoint file (an ensemble, or weights that its package "
            "downloads by itself): load it there, and give it as package.module:function."
        )
    path = local_file(folder, name) if weights else None
    if weights and path is None:
        places = " or ".join(str(place / f"{name}.pt") for place in folders(folder))
        raise ModelError(
            f"{what}: there is no {places}. Save https://drive.google.com/uc?id="
            f"{entry['gdrive_id']} there, or name the folder it is in (--model-dir or "
            "$IGDEFENSE_MODELS): nothing is downloaded from here."
        )
    try:
        with drawn():
            model: nn.Module = entry["model"]()
    except Exception as error:  # whatever the package's constructors raise
        raise ModelError(f"{what} cannot be built by its package: {one_line(error)}.") from error
    if path is not None:
        _fill(model, path, what, name)
    _settle(model)
    _after_relu(model)
    size = 224 if name.startswith("imagenet") else 32
    return Adapted(model.eval(), "robustbench.model_zoo", layer=_penultimate(model), size=size)


def known_ids() -> list[str]:
    """Every `DATASET/THREAT/MODEL` of the installed package."""
    return list(_entries())


def _entries() -> dict[str, Entry]:
    zoo = import_foreign("robustbench.model_zoo").model_dicts
    return {
        f"{dataset.value}/{threat.value}/{name}": entry
        for dataset, threats in zoo.items()
        for threat, models in threats.items()
        for name, entry in models.items()
    }


def _entry(name: str) -> Entry:
    entries = _entries()
    if name not in entries:
        whole = name if "/" in name else f"cifar10/Linf/{name}"
        raise ModelError(
            f"RobustBench has no model {name!r}.{nearest(whole, entries)} Its {len(entries)} models"
            " are named DATASET/THREAT/MODEL."
        )
    return entries[name]


def _fill(model: nn.Module, path: Path, what: str, name: str) -> None:
    """Load the file; only a normalisation that the package knows may be absent from it."""
    content = read_weights(path)
    if name.rpartition("/")[2].startswith(LAST) and isinstance(content.get("last"), Mapping):
        content = dict(content["last"])
    state = unwrap(content, path)
    for prefix in ("module.", "model."):
        state = {key.removeprefix(prefix): value for key, value in state.items()}
    expected: State = model.state_dict()
    if all(key.startswith(("model.", "normalize.")) for key in expected):  # ImageNet
        inner = {key for key in state if key not in expected}
        state = {f"model.{key}" if key in inner else key: state[key] for key in state}
    kept = {
        key: value
        for key, value in expected.items()
        if key not in state and (key in NORMALIZATION or key.endswith(".num_batches_tracked"))
    }
    wanted = {key: value for key, value in expected.items() if key not in kept}
    model.load_state_dict(fitted(state, wanted, what, path, _advice(state, wanted)) | kept)


def _advice(state: State, expected: State) -> str:
    for key in ("linear.weight", "fc.weight", "model.fc.weight", "logits.weight"):
        if key in state and key in expected and len(state[key]) != len(expected[key]):
            return (
                f"The file is of a model with {len(state[key])} classes, not {len(expected[key])}: "
                "name the data set it was trained on."
            )
    return "Is it another model's file?"


def _settle(model: nn.Module) -> None:
    """Weights that are computed anew at each use (SODEF's orthogonal ones) become plain weights."""
    for module in model.modules():
        if parametrize.is_parametrized(module):
            for name in list(module.parametrizations):  # type: ignore[arg-type]
                parametrize.remove_parametrizations(module, name, leave_parametrized=True)


class NormRelu(nn.BatchNorm2d):
    """A batch norm whose output has passed the ReLU that follows it anyway."""

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(super().forward(x))


def _after_relu(model: nn.Module) -> None:
    """The PreActResNet's last `bn` gets its ReLU, so that its neurons are those the head reads.

    Its forward method then applies a second one, which changes nothing.
    """
    if getattr(model, "bn_before_fc", False) and type(norm := model.bn) is nn.BatchNorm2d:
        norm.__class__ = NormRelu


def _penultimate(model: nn.Module) -> str | None:
    """Where IG-Defense works by default; None where only a forward pass can tell."""
    kinds = {kind.__name__ for kind in type(model).__mro__}
    if isinstance(inner := getattr(model, "model", None), nn.Module):
        found = _penultimate(inner)
        return found and f"model.{found}"
    if kinds & {"WideResNet", "DMWideResNet", "DMPreActResNet"}:
        return "model.relu"
    if "PreActResNet" in kinds:
        return "model.bn" if getattr(model, "bn_before_fc", False) else "model.layer4"
    return "model.layer4" if "ResNet" in kinds else None
