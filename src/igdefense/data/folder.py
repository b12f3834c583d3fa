"""Folders of images, one for each class."""

from pathlib import Path

import torch

from igdefense.data.crops import Crop
from igdefense.data.data import Data
from igdefense.data.sources import FolderImages
from igdefense.errors import DataError

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm")


def read_folder(folder: Path, *, n: int | None = None, crop: Crop | None = None) -> Data:
    """One sub-folder a class, in alphabetical order; images are decoded when asked for."""
    classes = class_folders(folder)
    found = [images_in(inside) for inside in classes]
    paths = [path for some in found for path in some]
    labels = [label for label, some in enumerate(found) for _ in some]
    if n is not None and n > len(paths):
        raise DataError(f"{folder} holds {len(paths):,} images, fewer than the {n:,} asked for.")
    images = FolderImages(paths[:n], crop)
    return Data(images, torch.tensor(labels[:n]), [inside.name for inside in classes])


def class_folders(folder: Path) -> list[Path]:
    """The sub-folders, in alphabetical order."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; expected one sub-folder of images per class.")
    classes = sorted(f for f in folder.iterdir() if f.is_dir() and not f.name.startswith("."))
    if not classes:
        raise DataError(f"{folder} has no sub-folders; expected one per class.")
    return classes


def images_in(folder: Path) -> list[Path]:
    """A class's image files, in alphabetical order; an error if there are none."""
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES)
    found = [path for path in found if not path.name.startswith(".")]
    if not found:
        raise DataError(
            f"{folder} holds no images ({', '.join(IMAGE_SUFFIXES)}): add some or remove it."
        )
    return found
