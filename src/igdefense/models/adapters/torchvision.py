"""`torchvision:NAME`: a classifier of torchvision with weights from this disk, or random ones."""

import logging
import re
from pathlib import Path
from typing import Any

import torch
from torch import nn

from igdefense.errors import ModelError
from igdefense.models.adapters.adapted import Adapted, drawn
from igdefense.models.adapters.foreign import import_foreign, one_line
from igdefense.models.adapters.spec import Spec, folders, local_file, nearest
from igdefense.models.normalize import IMAGENET_MEAN, IMAGENET_STD
from igdefense.models.state import State, fitted, unwrap
from igdefense.models.weights_file import read_weights

log = logging.getLogger(__name__)
OLD_DENSE = r"(.*denselayer\d+\.(?:norm|relu|conv))\.([12])\.(.+)"  # norm.1 is norm1 today


def load_torchvision(text: str, folder: Path | None = None, *, weights: bool = True) -> Adapted:
    """`NAME`, with `?pretrained=false` for random weights, `?weights=IMAGENET1K_V1` for older ones.

    Files: MODEL_DIR/torchvision/NAME.pth, or where torch.hub keeps its downloads.
    """
    models, spec = import_foreign("torchvision.models"), Spec.of(text)
    known = models.list_models(module=models)
    if spec.name not in known:
        raise ModelError(f"torchvision has no classifier {spec.name!r}.{nearest(spec.name, known)}")
    options = dict(spec.options)
    entry = _weights(models, spec.name, options.pop("weights", "DEFAULT"))
    if spec.name in ("googlenet", "inception_v3"):  # their extra heads are for training
        options.setdefault("aux_logits", False)
        options.setdefault("init_weights", True)
    try:
        with drawn(spec.seed):
            model: nn.Module = models.get_model(spec.name, weights=None, **options)
    except Exception as error:  # whatever its constructors say to these options
        raise ModelError(f"torchvision:{text} cannot be built: {one_line(error)}.") from error
    if weights and spec.pretrained:
        path = _file(spec.name, entry, folder)
        state = {
            re.sub(OLD_DENSE, r"\1\2.\3", key): value
            for key, value in unwrap(read_weights(path), path).items()
            if not re.match(r"(aux\d|AuxLogits)\.", key)
        }
        expected: State = model.state_dict()
        advice = "Options such as num_classes must be those it was trained with."
        model.load_state_dict(fitted(state, expected, f"torchvision:{text}", path, advice))
    about = entry.transforms() if entry is not None else None
    mean, std = getattr(about, "mean", IMAGENET_MEAN), getattr(about, "std", IMAGENET_STD)
    size = (getattr(about, "crop_size", None) or [224])[0]
    log.info("torchvision:%s: mean %s, std %s; made for images of %d.", spec.name, mean, std, size)
    return Adapted(model, "torchvision", mean, std, size=size)


def _weights(models: Any, name: str, wanted: object) -> Any:
    """The entry of torchvision's table of weights, None for a model without any."""
    table = models.get_model_weights(name)
    names = [entry.name for entry in table]
    if wanted != "DEFAULT" and wanted not in names:
        raise ModelError(
            f"torchvision:{name} has no weights {wanted!r}; it has {', '.join(names) or 'none'}."
        )
    return table[str(wanted)] if names else None


def _file(name: str, entry: Any, folder: Path | None) -> Path:
    found = local_file(folder, f"torchvision/{name}")
    address = None if entry is None else str(entry.url)
    if found is None and address:
        kept = Path(torch.hub.get_dir()) / "checkpoints" / address.rpartition("/")[2]
        found = kept if kept.is_file() else None
    if found is None:
        download = f"Save {address} as" if address else "Save them as"
        raise ModelError(
            f"The weights of torchvision:{name} are not on this disk. {download} "
            f"{folders(folder)[0] / 'torchvision' / name}.pth; torchvision:{name}?pretrained=false "
            "has random ones. Nothing is downloaded from here."
        )
    return found
