"""ImageNet-1k in its usual folders, `val/n01440764/*.JPEG`, read when asked for."""

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path

import torch

from igdefense.data import cifar10
from igdefense.data.crops import Crop
from igdefense.data.data import Data
from igdefense.data.folder import class_folders, images_in
from igdefense.data.sources import FolderImages
from igdefense.errors import DataError

PARTS = ("train", "val", "first-5000", "robustbench")
FIRST = 5000
NAMES_FILES = ("LOC_synset_mapping.txt", "synset_words.txt")


def default_folder() -> Path:
    """$IGDEFENSE_DATA/imagenet, or a folder in the user's cache."""
    return cifar10.default_folder().with_name("imagenet")


def read(
    part: str, folder: Path | None = None, crop: Crop | None = None, n: int | None = None
) -> Data:
    """`train`, `val`, or one of two choices of 5,000 validation images.

    `first-5000`: the first by number, ILSVRC2012_val_00000001 to 5000, as the paper says.
    `robustbench`: those of RobustBench, in its order, from the list in its package.
    `train` and `val` come in the order of the folders, as with torchvision.
    """
    folder = folder or default_folder()
    split = folder / ("train" if part == "train" else "val")
    if not split.is_dir():
        raise DataError(
            f"{split} is missing; expected ImageNet's folders there, one per class "
            "(n01440764/*.JPEG). `--data-dir` or $IGDEFENSE_DATA names another place."
        )
    classes = class_folders(split)
    names = [place.name for place in classes]
    if part == "robustbench":
        paths = _listed(split, _robustbench_ids(), names)
    else:
        paths = [path for place in classes for path in images_in(place)]
        if part == "first-5000":
            paths = sorted(paths, key=_number)[:FIRST]
            if len(paths) < FIRST:
                raise DataError(f"{split} holds {len(paths):,} images, fewer than {FIRST:,}.")
    if n is not None and n > len(paths):
        raise DataError(
            f"imagenet:{part} holds {len(paths):,} images, fewer than the {n:,} asked for."
        )
    paths = paths[:n]
    positions = {name: position for position, name in enumerate(names)}
    labels = torch.tensor([positions[path.parent.name] for path in paths])
    images = FolderImages(paths, crop or Crop.imagenet(224))
    return Data(images, labels, _class_names(names, (split, folder)))


def _number(path: Path) -> int:
    found = re.search(r"(\d+)\.\w+$", path.name)
    if found is None:
        raise DataError(
            f"{path} carries no number; expected ILSVRC2012_val_00000001.JPEG and the like, whose "
            "order says which are the first."
        )
    return int(found[1])


def _listed(split: Path, ids: Sequence[str], names: Sequence[str]) -> list[Path]:
    known = set(names)
    paths = [split / one for one in ids]
    absent = [path for path in paths if path.parent.name not in known or not path.is_file()]
    if absent:
        raise DataError(
            f"{absent[0]} is missing, one of {len(absent):,} of RobustBench's {len(ids):,} images."
        )
    return paths


def _robustbench_ids() -> list[str]:
    """From the package's own list; the package is not imported."""
    found = importlib.util.find_spec("robustbench")
    places = [] if found is None else list(found.submodule_search_locations or [])
    for place in places:
        path = Path(place) / "helper_files" / "imagenet_test_image_ids.txt"
        if path.is_file():
            return path.read_text(encoding="utf-8").split()
    raise DataError(
        "imagenet:robustbench needs the list inside the package robustbench: "
        "pip install --no-deps robustbench."
    )


def _class_names(names: Sequence[str], places: Sequence[Path]) -> list[str]:
    """Words for the folders' WordNet numbers where a file beside them has them."""
    for place in places:
        for file in NAMES_FILES:
            if (place / file).is_file():
                lines = (place / file).read_text(encoding="utf-8").splitlines()
                words = dict(line.split(" ", 1) for line in lines if " " in line)
                return [words.get(name, name) for name in names]
    return list(names)
