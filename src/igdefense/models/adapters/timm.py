"""`timm:NAME`: an architecture of timm with weights from this disk, or with random ones."""

import json
import logging
from pathlib import Path
from typing import Any

from torch import nn

from igdefense.errors import ModelError
from igdefense.models.adapters.adapted import Adapted, drawn
from igdefense.models.adapters.foreign import import_foreign, one_line
from igdefense.models.adapters.hub import from_hub_cache
from igdefense.models.adapters.spec import Spec, folders, local_file, nearest
from igdefense.models.state import State, fitted, unwrap
from igdefense.models.weights_file import read_weights

log = logging.getLogger(__name__)
FILES = ("model.safetensors", "pytorch_model.bin")


def load_timm(text: str, folder: Path | None = None, *, weights: bool = True) -> Adapted:
    """`NAME`, or a folder that timm's `save_for_hf` wrote; `?pretrained=false` for random weights.

    Files: MODEL_DIR/timm/NAME.safetensors (.pth, .bin), the hub's cache, or the folder itself.
    """
    timm, spec = import_foreign("timm"), Spec.of(text)
    name, options = spec.name, dict(spec.options)
    config: dict[str, Any] = {}
    if (own := Path(name)).is_dir():
        config = _config(own)
        name = str(config.get("architecture"))
        options = {**config.get("model_args", {}), **options}
        if "num_classes" in config:
            options.setdefault("num_classes", config["num_classes"])
    if not timm.is_model(name):
        raise ModelError(f"timm has no model {name!r}.{nearest(name, timm.list_models())}")
    try:
        with drawn(spec.seed):
            model: nn.Module = timm.create_model(name, pretrained=False, **options)
    except Exception as error:  # whatever its constructors say to these options
        raise ModelError(f"timm:{text} cannot be built: {one_line(error)}.") from error
    about: dict[str, Any] = {**model.pretrained_cfg, **config.get("pretrained_cfg", {})}  # type: ignore[dict-item]
    if weights and spec.pretrained:
        path = _file(own if config else None, name, about, folder)
        expected: State = model.state_dict()
        advice = "Options such as num_classes must be those it was trained with."
        state = unwrap(read_weights(path), path)
        model.load_state_dict(fitted(state, expected, f"timm:{text}", path, advice))
    size = " x ".join(map(str, about["input_size"]))
    log.info(
        "timm:%s: mean %s, std %s; made for %s images.", name, about["mean"], about["std"], size
    )
    fixed = options.get("img_size", about["input_size"][1])
    return Adapted(model, "timm", about["mean"], about["std"], size=fixed)


def _config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{folder} holds no config.json of timm ({one_line(error)}): save it with save_for_hf."
        ) from error
    if not isinstance(config, dict) or "architecture" not in config:
        raise ModelError(f"{folder / 'config.json'} names no timm architecture.")
    return config


def _file(own: Path | None, name: str, about: dict[str, Any], folder: Path | None) -> Path:
    if own is not None:
        path = next((own / file for file in FILES if (own / file).is_file()), None)
        if path is None:
            raise ModelError(f"{own} holds neither {' nor '.join(FILES)}.")
        return path
    tag = about.get("tag")
    stems = [f"timm/{name}.{tag}"] if tag else []
    found = local_file(folder, *stems, f"timm/{name}")
    repository = about.get("hf_hub_id")
    if found is None and repository:
        found = from_hub_cache(repository, *FILES)
    if found is None:
        download = f"`hf download {repository}`, or " if repository else ""
        raise ModelError(
            f"The weights of timm:{name} are not on this disk: {download}save them as "
            f"{folders(folder)[0] / 'timm' / name}.safetensors; timm:{name}?pretrained=false has "
            "random ones. Nothing is downloaded from here."
        )
    return found
