"""CLIP and its kin through the package transformers, from a folder or the hub's cache."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from igdefense.errors import ModelError
from igdefense.models.adapters.foreign import import_foreign, one_line
from igdefense.models.fingerprint import hash_text, weights_fingerprint
from igdefense.rankings.encoders.dual import Embeddings
from igdefense.rankings.encoders.pictures import pictures
from igdefense.types import Images


class TransformersEncoder:
    """A model with `get_image_features` and `get_text_features`, and its own processors."""

    def __init__(self, model: Any, processor: Any, tokenizer: Any) -> None:
        self.model, self.processor, self.tokenizer = model.eval(), processor, tokenizer
        settings = hash_text(str(model.config), str(processor))
        self.identity = f"transformers {weights_fingerprint(model)} {settings}"

    @torch.no_grad()
    def images(self, images: Images) -> Embeddings:
        batch = self.processor(images=list(pictures(images)), return_tensors="pt")
        return self._unit(self.model.get_image_features, pixel_values=batch["pixel_values"])

    @torch.no_grad()
    def texts(self, texts: Sequence[str]) -> Embeddings:
        batch = self.tokenizer(list(texts), padding=True, truncation=True, return_tensors="pt")
        return self._unit(self.model.get_text_features, **batch)

    def _unit(self, features: Any, **batch: Tensor) -> Embeddings:
        out = features(**{name: value.to(self.model.device) for name, value in batch.items()})
        tensor = out if isinstance(out, Tensor) else out.pooler_output  # transformers 4, 5
        return nn.functional.normalize(tensor.float(), dim=1)

    @classmethod
    def find(cls, name: str) -> "TransformersEncoder":
        """A folder that `save_pretrained` wrote, or a name whose files are in the hub's cache."""
        transformers = import_foreign("transformers")
        import_foreign("transformers.models.clip.modeling_clip")
        bars = transformers.utils.logging
        shown = bars.is_progress_bar_enabled()
        bars.disable_progress_bar()
        try:
            model, loading = transformers.AutoModel.from_pretrained(
                name, local_files_only=True, output_loading_info=True
            )
            processor = transformers.AutoImageProcessor.from_pretrained(name, local_files_only=True)
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, local_files_only=True)
        except Exception as error:  # missing, damaged and foreign files raise all kinds
            if not Path(name).exists():
                raise ModelError(
                    f"transformers:{name} is neither a folder nor in the hub's cache; download it "
                    f"once: hf download {name}."
                ) from error
            raise ModelError(
                f"{name} cannot be loaded by transformers: {one_line(error)}."
            ) from error
        finally:
            if shown:
                bars.enable_progress_bar()
        if not hasattr(model, "get_image_features") or not hasattr(model, "get_text_features"):
            raise ModelError(
                f"{name} holds a {type(model).__name__}, which has no images and texts in one "
                "space; name a CLIP."
            )
        absent = sorted(loading["missing_keys"])
        if absent:
            raise ModelError(f"{name} lacks weights ({absent[0]} and {len(absent) - 1} more).")
        return cls(model, processor, tokenizer)
