"""The images that ship with the package: lossless mosaics and their labels.

`make embedded-images` writes them again from CIFAR-10's binary version.
"""

import importlib.resources
import io
import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from igdefense.data import cifar10
from igdefense.data.data import Data, Pixels
from igdefense.data.subset import balanced_positions
from igdefense.errors import DataError

PARTS = {"probe": ("train", 200), "test": ("test", 100)}  # split of CIFAR-10, images of each class
COLUMNS = 40


def read(part: str) -> Data:
    """`probe` (2,000 training images) or `test` (1,000 test images) of CIFAR-10."""
    if part not in PARTS:
        raise DataError(f"There is no embedded:{part}; expected embedded:probe or embedded:test.")
    folder = importlib.resources.files("igdefense.data") / "images"
    record = json.loads((folder / f"{part}.json").read_text())
    with Image.open(io.BytesIO((folder / f"{part}.webp").read_bytes())) as picture:
        mosaic = torch.from_numpy(np.asarray(picture.convert("RGB")).copy())
    rows, columns = mosaic.shape[0] // 32, mosaic.shape[1] // 32
    tiles = mosaic.reshape(rows, 32, columns, 32, 3).permute(0, 2, 4, 1, 3)
    labels = torch.tensor(record["labels"])
    images = tiles.reshape(-1, 3, 32, 32)[: len(labels)]
    return Data(images.contiguous() / 255, labels, record["class_names"])


def write(source: Path | None = None, seed: int = 0) -> None:
    """Choose class-balanced images and write them as mosaics of 32 x 32 tiles."""
    folder = Path(__file__).parent / "images"
    for part, (split, per_class) in PARTS.items():
        data = cifar10.read(split, source)
        assert isinstance(data.images, Pixels)
        positions = balanced_positions(data, per_class, seed)
        tiles = data.images.bytes[positions].reshape(-1, COLUMNS, 3, 32, 32)
        mosaic = tiles.permute(0, 3, 1, 4, 2).reshape(-1, COLUMNS * 32, 3)
        picture = Image.fromarray(mosaic.contiguous().numpy())
        picture.save(folder / f"{part}.webp", lossless=True, quality=100, method=6)
        record = {
            "from": f"CIFAR-10 {split}, {per_class} of each class, seed {seed}",
            "class_names": list(data.class_names),
            "positions": positions.tolist(),
            "labels": data.labels[positions].tolist(),
        }
        (folder / f"{part}.json").write_text(json.dumps(record) + "\n")
