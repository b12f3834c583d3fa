"""CIFAR-100 with its fine labels: the binary version, or PNG strips with labels.json."""

import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from igdefense.data import cifar10
from igdefense.data.data import Data, Pixels
from igdefense.errors import DataError

RECORD = 2 + 3 * 32 * 32  # coarse label, fine label, pixels
COUNT = {"train": 50_000, "test": 10_000}
ARCHIVE = "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"


def default_folder() -> Path:
    """$IGDEFENSE_DATA/cifar100, or a folder in the user's cache."""
    return cifar10.default_folder().with_name("cifar100")


def read(split: str, folder: Path | None = None) -> Data:
    """`train` (50,000) or `test` (10,000) images of 100 classes."""
    folder = folder or default_folder()
    nested = folder / "cifar-100-binary"
    folder = nested if nested.is_dir() else folder
    if (folder / f"{split}.bin").is_file():
        return _binary(split, folder)
    if (folder / "labels.json").is_file():
        return _strips(split, folder)
    raise DataError(
        f"{folder} holds neither {split}.bin (CIFAR-100's binary version) nor labels.json with PNG "
        f"strips. Unpack {ARCHIVE} there; `--data-dir` or $IGDEFENSE_DATA names another folder."
    )


def _binary(split: str, folder: Path) -> Data:
    path = folder / f"{split}.bin"
    content = np.fromfile(path, dtype=np.uint8)
    if content.size != COUNT[split] * RECORD:
        raise DataError(
            f"{path} has {content.size:,} bytes; CIFAR-100's binary version has "
            f"{COUNT[split] * RECORD:,}. Unpack {ARCHIVE} again."
        )
    names = folder / "fine_label_names.txt"
    if not names.is_file():
        raise DataError(f"{names} is missing; it comes with CIFAR-100's binary version.")
    table = torch.from_numpy(content.reshape(-1, RECORD))
    classes = names.read_text(encoding="utf-8").split()
    return Data(Pixels(table[:, 2:].reshape(-1, 3, 32, 32)), table[:, 1].long(), classes)


def _strips(split: str, folder: Path) -> Data:
    """`train_0.png`, `train_1.png`...: one image a row, 1024 RGB pixels each."""
    try:
        record = json.loads((folder / "labels.json").read_text(encoding="utf-8"))
        labels, classes = torch.tensor(record[split]).long(), [str(c) for c in record["classes"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{folder / 'labels.json'} is not whole ({error}): expected `classes`, `train`, `test`."
        ) from error
    rows: list[torch.Tensor] = []
    while (path := folder / f"{split}_{len(rows)}.png").is_file():
        try:
            with Image.open(path) as picture:
                pixels = np.array(picture.convert("RGB"))
        except (OSError, SyntaxError, ValueError) as error:
            raise DataError(f"{path} is not a readable image ({error}): replace it.") from error
        if pixels.shape[1:] != (1024, 3):
            raise DataError(f"{path} is {pixels.shape[1]} pixels wide; expected 1024, 32 x 32.")
        rows.append(torch.from_numpy(pixels))
    if not rows:
        raise DataError(f"{folder / f'{split}_0.png'} is missing; labels.json is there without it.")
    images = torch.cat(rows).reshape(-1, 32, 32, 3).permute(0, 3, 1, 2).contiguous()
    return Data(Pixels(images), labels, classes)
