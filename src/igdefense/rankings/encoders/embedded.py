"""The encoder that ships with the package, where CLIP's weights cannot."""

import importlib.resources
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from igdefense.errors import DataError, ModelError
from igdefense.files import written_whole
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.rankings.encoders.dual import DualEncoder, Embeddings
from igdefense.types import Images

log = logging.getLogger(__name__)
FORMAT = "igdefense-encoder-1"
FILE = "encoder.safetensors"


class EmbeddedEncoder:
    """A `DualEncoder` with its weights, and the names it was trained on."""

    def __init__(self, model: DualEncoder, names: Sequence[str]) -> None:
        self.model, self.names = model.eval(), tuple(names)

    @property
    def identity(self) -> str:
        return f"embedded {weights_fingerprint(self.model)}"

    @torch.no_grad()
    def images(self, images: Images) -> Embeddings:
        self.check_size(images.shape)
        return self.model(images.float())

    @torch.no_grad()
    def texts(self, texts: Sequence[str]) -> Embeddings:
        strange = [text for text in texts if not any(name in text for name in self.names)]
        if strange:
            log.warning(
                "The embedded encoder was trained on %s only; what it makes of %s means nothing. "
                "CLIP knows more: --encoder open_clip:ViT-B-16/openai.",
                ", ".join(self.names),
                ", ".join(map(repr, strange[:3])) + ("..." if len(strange) > 3 else ""),
            )
        return self.model.texts(texts)

    @staticmethod
    def check_size(shape: Sequence[int]) -> None:
        """Refuse images it was not made for."""
        channels, height, width = shape[1:]
        size = DualEncoder.size
        if (channels, height, width) != (3, size, size):
            raise DataError(
                f"The embedded encoder takes images of 3 x {size} x {size}, not of {channels} x "
                f"{height} x {width}; choose CLIP, which resizes (--encoder "
                "open_clip:ViT-B-16/openai), or resize the images."
            )

    @classmethod
    def find(cls, folder: str = "") -> "EmbeddedEncoder":
        """The shipped one, or one that `igd train-encoder` put in a folder."""
        if folder:
            return cls.load(Path(folder) / FILE)
        shipped = importlib.resources.files("igdefense.rankings.encoders") / "weights" / FILE
        with importlib.resources.as_file(shipped) as path:
            return cls.load(path)

    @classmethod
    def load(cls, path: Path) -> "EmbeddedEncoder":
        """Read what `save_encoder` wrote."""
        if not path.is_file():
            raise ModelError(f"{path} is missing; `igd train-encoder` makes one.")
        try:
            with safe_open(path, framework="pt") as file:
                header = file.metadata() or {}
                if header.get("format") != FORMAT:
                    raise ModelError(f"{path} is not an encoder made by `igd train-encoder`.")
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            names = json.loads(header["class names"])
            model = DualEncoder(int(header["features"]), json.loads(header["widths"]))
            model.load_state_dict(tensors)  # halves become floats
        except (SafetensorError, OSError, KeyError, ValueError, TypeError, RuntimeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ModelError(f"{path} is not a whole encoder file ({reason}).") from error
        return cls(model, names)


def save_encoder(model: DualEncoder, names: Sequence[str], path: Path) -> None:
    """Write the weights in half precision, with the class names in the header."""
    header = {
        "format": FORMAT,
        "class names": json.dumps(list(names)),
        "features": str(model.project.out_features),
        "widths": json.dumps(model.widths),
    }
    tensors = {
        name: (tensor.half() if tensor.is_floating_point() else tensor).contiguous()
        for name, tensor in model.state_dict().items()
    }
    with written_whole(path) as part:
        save_file(tensors, part, metadata=header)


def encoder_card() -> dict[str, Any]:
    """How the shipped encoder was made and how well it does."""
    folder = importlib.resources.files("igdefense.rankings.encoders") / "weights"
    card: dict[str, Any] = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    return card
