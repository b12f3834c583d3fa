"""The store: adversarial images by what made them, one file for each piece of work."""

import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from igdefense.files import written_whole
from igdefense.models.fingerprint import hash_text

log = logging.getLogger(__name__)


def image_ids(images: Tensor, labels: Tensor) -> list[str]:
    """A name for each labelled image, from its content."""
    rows = images.detach().cpu().float().contiguous()
    return [
        hashlib.sha256(row.numpy().tobytes() + bytes(str(label), "ascii")).hexdigest()[:20]
        for row, label in zip(rows, labels.tolist(), strict=True)
    ]


class Store:
    """A folder of adversarial images; several processes may share it.

    `ROOT/<unit>/<images>.safetensors`: a unit is the hash of everything an attack's result depends
    on but the images, so a result is found again whatever run, order or batch it was made in.
    Files appear whole; each holds a checksum, and one that does not match is dropped and made anew.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def get(self, unit: str, ids: Sequence[str]) -> dict[str, Tensor]:
        """The adversarial images that are there, by image."""
        wanted, found = set(ids), dict[str, Tensor]()
        for path in sorted((self.root / unit).glob("*.safetensors")):
            if wanted <= found.keys():
                break
            for name, image in self._read(path, wanted - found.keys()).items():
                found[name] = image
        return found

    def put(self, unit: str, ids: Sequence[str], x: Tensor, about: dict[str, Any]) -> None:
        """Keep the adversarial images of `ids`, with a description of what made them."""
        x = x.detach().cpu().contiguous()
        header = {
            "ids": json.dumps(list(ids)),
            "sha256": _checksum(x),
            "about": json.dumps(about, default=str),
        }
        with written_whole(self.root / unit / f"{hash_text(list(ids))}.safetensors") as part:
            save_file({"x": x}, part, metadata=header)

    def _read(self, path: Path, wanted: set[str]) -> dict[str, Tensor]:
        try:
            with safe_open(path, framework="pt") as file:
                header = file.metadata() or {}
                ids: list[str] = json.loads(header["ids"])
                if wanted.isdisjoint(ids):
                    return {}
                x = file.get_tensor("x")
            if len(ids) != len(x) or _checksum(x) != header["sha256"]:
                raise ValueError("its checksum does not match")
        except FileNotFoundError:  # another process has just dropped it
            return {}
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            log.warning("%s is damaged (%s); it is made anew.", path, error)
            path.unlink(missing_ok=True)
            return {}
        return {name: x[i] for i, name in enumerate(ids) if name in wanted}


def _checksum(x: Tensor) -> str:
    digest = hashlib.sha256(f"{tuple(x.shape)} {x.dtype}".encode())
    digest.update(x.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
