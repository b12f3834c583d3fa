"""CLIP through the package open_clip_torch, from a folder, a file or the hub's cache."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from igdefense.errors import ModelError
from igdefense.models.adapters.foreign import import_foreign, one_line
from igdefense.models.adapters.hub import from_hub_cache
from igdefense.models.fingerprint import hash_text, weights_fingerprint
from igdefense.rankings.encoders.dual import Embeddings
from igdefense.rankings.encoders.pictures import pictures
from igdefense.types import Images

WEIGHT_FILES = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")


class OpenClipEncoder:
    """An open_clip model with its own preprocessing and tokenizer."""

    def __init__(
        self,
        model: nn.Module,
        preprocess: Callable[[Any], Tensor],
        tokenizer: Callable[[list[str]], Tensor],
    ) -> None:
        self.model, self.preprocess, self.tokenizer = model.eval(), preprocess, tokenizer
        self.identity = (
            f"open_clip {weights_fingerprint(model)} {hash_text(str(preprocess), str(model))}"
        )

    @torch.no_grad()
    def images(self, images: Images) -> Embeddings:
        batch = torch.stack([self.preprocess(picture) for picture in pictures(images)])
        return self._call("encode_image", batch)

    @torch.no_grad()
    def texts(self, texts: Sequence[str]) -> Embeddings:
        return self._call("encode_text", self.tokenizer(list(texts)))

    def _call(self, method: str, batch: Tensor) -> Embeddings:
        device = next(self.model.parameters()).device
        features: Tensor = getattr(self.model, method)(batch.to(device))
        return nn.functional.normalize(features.float(), dim=1)

    @classmethod
    def find(cls, name: str) -> "OpenClipEncoder":
        """`FOLDER` with open_clip_config.json, or `ARCHITECTURE/TAG-or-FILE`."""
        open_clip = import_foreign("open_clip")
        with _quiet():
            if Path(name).is_dir():
                return cls._from_folder(open_clip, name)
            architecture, _, weights = name.partition("/")
            if architecture not in open_clip.list_models():
                raise ModelError(
                    f"open_clip has no architecture {architecture!r}, and {name} is no folder; "
                    "write open_clip:ViT-B-16/openai or open_clip:FOLDER."
                )
            return cls._from_weights(open_clip, architecture, weights)

    @classmethod
    def _from_folder(cls, open_clip: Any, folder: str) -> "OpenClipEncoder":
        if not (Path(folder) / "open_clip_config.json").is_file():
            raise ModelError(f"{folder} holds no open_clip_config.json: not an open_clip folder.")
        try:
            model = open_clip.create_model(
                f"local-dir:{folder}", require_pretrained=True, weights_only=True
            )
        except Exception as error:  # whatever a foreign file makes open_clip raise
            raise ModelError(
                f"{folder} cannot be loaded by open_clip: {one_line(error)}"
            ) from error
        return cls(
            model, _preprocess(open_clip, model), open_clip.get_tokenizer(f"local-dir:{folder}")
        )

    @classmethod
    def _from_weights(cls, open_clip: Any, architecture: str, weights: str) -> "OpenClipEncoder":
        tag = open_clip.get_pretrained_cfg(architecture, weights)
        if not tag and not Path(weights).is_file():
            tags = ", ".join(open_clip.list_pretrained_tags_by_model(architecture)) or "none"
            raise ModelError(
                f"open_clip has no weights {weights!r} for {architecture}, and there is no such "
                f"file; its tags: {tags}."
            )
        file = _from_hub_cache(architecture, weights, tag) if tag else weights
        names = ("mean", "std", "interpolation", "resize_mode")
        try:
            model = open_clip.create_model(
                architecture,
                pretrained=file,
                force_quick_gelu=bool(tag.get("quick_gelu")),
                force_preprocess_cfg={name: tag[name] for name in names if name in tag},
                weights_only=True,
            )
        except Exception as error:  # whatever a foreign file makes open_clip raise
            raise ModelError(f"{file} cannot be loaded by open_clip: {one_line(error)}") from error
        return cls(model, _preprocess(open_clip, model), open_clip.get_tokenizer(architecture))


def _from_hub_cache(architecture: str, name: str, tag: dict[str, Any]) -> str:
    """The weights' file, if it was downloaded before."""
    repository, _, file = str(tag.get("hf_hub", "")).rpartition("/")
    found = from_hub_cache(repository, *((file,) if file else WEIGHT_FILES))
    if found is not None:
        return str(found)
    wanted = file or WEIGHT_FILES[0]
    raise ModelError(
        f"The weights of open_clip:{architecture}/{name} are not in the hub's cache; download "
        f"them once: hf download {repository} {wanted}."
    )


def _preprocess(open_clip: Any, model: Any) -> Callable[[Any], Tensor]:
    settings = open_clip.transform.PreprocessCfg(**model.visual.preprocess_cfg)
    transform: Callable[[Any], Tensor] = open_clip.transform.image_transform_v2(
        settings, is_train=False
    )
    return transform


class _quiet:  # noqa: N801
    """open_clip tells every step to the root logger."""

    def __enter__(self) -> None:
        self.before = logging.root.manager.disable
        logging.disable(logging.WARNING)

    def __exit__(self, *_: object) -> None:
        logging.disable(self.before)
