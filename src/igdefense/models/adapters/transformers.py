"""`transformers:FOLDER-or-NAME`: an image classifier of transformers, from this disk."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from igdefense.errors import ModelError
from igdefense.models.adapters.adapted import Adapted, drawn
from igdefense.models.adapters.foreign import import_foreign, one_line
from igdefense.models.adapters.hub import from_hub_cache
from igdefense.models.adapters.spec import Spec

log = logging.getLogger(__name__)


class Outputs(nn.Module):
    """The logits alone; with the classifier taken out, its input."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, images: Tensor) -> Tensor:
        return self.net(pixel_values=images).logits


def load_transformers(text: str, folder: Path | None = None, *, weights: bool = True) -> Adapted:
    """A folder that `save_pretrained` wrote, or a name whose files are in the hub's cache.

    With `?pretrained=false` the configuration alone is read, and the weights are random. Where the
    classifier is one module, it becomes `head`, and `model` gives its input: the usual layer.
    """
    spec = Spec.of(text)
    name = str(folder / spec.name) if folder and (folder / spec.name).is_dir() else spec.name
    net, absent = _read(name, spec, weights)
    if absent:
        raise ModelError(f"{name} lacks weights ({absent[0]} and {len(absent) - 1} more).")
    if not hasattr(net, "config") or not getattr(net.config, "num_labels", 0):
        raise ModelError(f"{name} holds a {type(net).__name__}, not an image classifier.")
    mean, std = _normalization(name)
    log.info("transformers:%s: mean %s, std %s.", name, mean, std)
    size = getattr(net.config, "image_size", None)
    known = size if isinstance(size, int) else None
    head = getattr(net, "classifier", None)
    if not isinstance(head, nn.Linear | nn.Sequential):
        return Adapted(Outputs(net), "transformers", mean, std, size=known)
    net.classifier = nn.Identity()
    return Adapted(Outputs(net), "transformers", mean, std, head=head, layer="model", size=known)


def _read(name: str, spec: Spec, weights: bool) -> tuple[Any, list[str]]:
    """The model, and the weights its files lack."""
    transformers = import_foreign("transformers")
    bars = transformers.utils.logging
    shown, level = bars.is_progress_bar_enabled(), bars.get_verbosity()
    bars.disable_progress_bar()
    bars.set_verbosity_error()
    try:
        auto, options = transformers.AutoModelForImageClassification, spec.options
        if weights and spec.pretrained:
            net, loading = auto.from_pretrained(
                name,
                local_files_only=True,
                output_loading_info=True,
                weights_only=True,
                attn_implementation="eager",
                **options,
            )
            return net, sorted(loading["missing_keys"])
        config = transformers.AutoConfig.from_pretrained(name, local_files_only=True, **options)
        with drawn(spec.seed):
            return auto.from_config(config, attn_implementation="eager"), []
    except Exception as error:  # missing, damaged and foreign files raise all kinds
        if not Path(name).exists() and from_hub_cache(name, "config.json") is None:
            raise ModelError(
                f"transformers:{name} is neither a folder nor in the hub's cache; download it "
                f"once: hf download {name}."
            ) from error
        raise ModelError(f"{name} cannot be loaded by transformers: {one_line(error)}.") from error
    finally:
        bars.set_verbosity(level)
        if shown:
            bars.enable_progress_bar()


def _normalization(name: str) -> tuple[Sequence[float] | None, Sequence[float] | None]:
    """Of its image processor, for [0, 1] pixels."""
    file = "preprocessor_config.json"
    path = Path(name) / file if Path(name).is_dir() else from_hub_cache(name, file)
    if path is None or not path.is_file():
        log.warning("%s has no %s: its input is not normalised.", name, file)
        return None, None
    about: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if not about.get("do_normalize", True):
        return None, None
    mean, std = about.get("image_mean", [0.5] * 3), about.get("image_std", [0.5] * 3)
    # Pixels are bytes there: scaled by a factor, 1/255 unless said, or not at all.
    scale = 255 * about.get("rescale_factor", 1 / 255) if about.get("do_rescale", True) else 255
    offset = 1 if about.get("rescale_offset") else 0  # to [-1, 1]
    return [(value + offset) / scale for value in mean], [value / scale for value in std]
