"""The store: adversarial images by what made them, one file for each piece of work."""

import hashlib
import json
import logging
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from igdefense.errors import OutputError
from igdefense.files import written_whole
from igdefense.models.fingerprint import hash_text
from igdefense.patience import folder_away, patiently

log = logging.getLogger(__name__)
SIGN = "store.json"


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
        self.root: Path | str = root
        self.name: str | None = None  # once it is signed

    def get(self, unit: str, ids: Sequence[str]) -> dict[str, Tensor]:
        """The adversarial images that are there, by image."""
        return patiently(lambda: self._found(unit, ids), f"The store {self.root}", self.away)

    def put(self, unit: str, ids: Sequence[str], x: Tensor, about: dict[str, Any]) -> None:
        """Keep the adversarial images of `ids`, with a description of what made them."""
        x = x.detach().cpu().contiguous()
        header = {
            "ids": json.dumps(list(ids)),
            "sha256": checksum(x),
            "about": json.dumps(about, default=str),
        }
        file = f"{hash_text(list(ids))}.safetensors"
        what = f"The store {self.root}"
        patiently(lambda: self._write(unit, file, x, header), what, self.away)

    def sign(self) -> None:
        """Give the store a name, by which a worker on another machine knows it again."""
        what = f"The store {self.root}"
        known = patiently(self._read_sign, what, self.away)
        if known is None:
            known = uuid4().hex
            content = json.dumps({"name": known})
            patiently(lambda: self._write_sign(content), what, self.away)
        self.name = known

    def arrived(self) -> None:
        """Refuse to work where the path or address leads to another place."""
        if self.name is None:
            return
        if patiently(self._read_sign, f"The store {self.root}", self.away) != self.name:
            raise OutputError(
                f"{platform.node()} does not see the store {self.root}: choose a folder that all "
                "machines share, or an address such as s3://bucket/folder, by --store."
            )

    def away(self, error: Exception) -> bool:
        """Whether this error means that the store may be back in a while."""
        return folder_away(error)

    def _found(self, unit: str, ids: Sequence[str]) -> dict[str, Tensor]:
        wanted, found = set(ids), dict[str, Tensor]()
        for path in sorted((Path(self.root) / unit).glob("*.safetensors")):
            if wanted <= found.keys():
                break
            for name, image in self._read(path, wanted - found.keys()).items():
                found[name] = image
        return found

    def _write(self, unit: str, file: str, x: Tensor, header: dict[str, str]) -> None:
        with written_whole(Path(self.root) / unit / file) as part:
            save_file({"x": x}, part, metadata=header)

    def _read(self, path: Path, wanted: set[str]) -> dict[str, Tensor]:
        try:
            with safe_open(path, framework="pt") as file:
                header = file.metadata() or {}
                ids: list[str] = json.loads(header["ids"])
                if wanted.isdisjoint(ids):
                    return {}
                x = file.get_tensor("x")
            check_sum(ids, x, header)
        except FileNotFoundError:  # another process has just dropped it
            return {}
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            if folder_away(error):
                raise
            log.warning("%s is damaged (%s); it is made anew.", path, error)
            path.unlink(missing_ok=True)
            return {}
        return {name: x[i] for i, name in enumerate(ids) if name in wanted}

    def _read_sign(self) -> str | None:
        try:
            return name_in((Path(self.root) / SIGN).read_bytes())
        except FileNotFoundError:
            return None

    def _write_sign(self, content: str) -> None:
        with written_whole(Path(self.root) / SIGN) as part:
            part.write_text(content)


def name_in(content: bytes) -> str | None:
    """The name in a sign; None if there is none."""
    try:
        return str(json.loads(content)["name"])
    except (ValueError, KeyError, TypeError):
        return None


def check_sum(ids: list[str], x: Tensor, header: Mapping[str, str]) -> None:
    """Refuse images that are not those that were stored."""
    if len(ids) != len(x) or checksum(x) != header["sha256"]:
        raise ValueError("its checksum does not match")


def checksum(x: Tensor) -> str:
    """Of shape, type and every bit."""
    digest = hashlib.sha256(f"{tuple(x.shape)} {x.dtype}".encode())
    digest.update(x.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
