"""Tensors on disk, by the content of what they were made from."""

import hashlib
import logging
import os
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from igdefense.errors import OutputError
from igdefense.files import written_whole
from igdefense.models.fingerprint import hash_text

log = logging.getLogger(__name__)


def default_folder() -> Path:
    """A folder in the user's cache; its files can be deleted at any time."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "igdefense" / "cd-ir"


@dataclass(frozen=True)
class Cache:
    """A folder of tensors; a damaged file is told of and counts as missing."""

    folder: Path

    def path(self, kind: str, *key: str) -> Path:
        return self.folder / f"{kind}-{hash_text(kind, *key)}.safetensors"

    def get(self, kind: str, *key: str) -> Tensor | None:
        """What `put` stored under this key, or None."""
        path = self.path(kind, *key)
        try:
            if not path.is_file():
                return None
            with safe_open(path, framework="pt") as file:
                tensor: Tensor = file.get_tensor("tensor")
                stored = (file.metadata() or {}).get("sha256")
        except (SafetensorError, OSError, ValueError) as error:
            log.warning("%s is damaged (%s); it is made anew.", path, str(error).rstrip("."))
            return None
        if stored != _digest(tensor):
            log.warning("%s is damaged (its checksum differs); it is made anew.", path)
            return None
        return tensor

    def put(self, tensor: Tensor, kind: str, *key: str) -> None:
        """Store it; a folder that cannot be written costs time later, nothing else."""
        kept = tensor.contiguous()
        try:
            with written_whole(self.path(kind, *key)) as part:
                save_file({"tensor": kept}, part, metadata={"sha256": _digest(kept)})
        except OutputError as error:
            log.warning("Nothing is cached: %s", error)


def _digest(tensor: Tensor) -> str:
    digest = hashlib.sha256(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
    digest.update(tensor.contiguous().flatten().view(dtype=torch.uint8).numpy().data)
    return digest.hexdigest()
