"""`hf:PATH-or-NAME[:SPLIT]`: a data set of the package datasets, from this disk."""

import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from igdefense.data.crops import Crop
from igdefense.data.data import Data, Index
from igdefense.data.sources import EIGHT_BIT, as_pixels, as_rgb, filled
from igdefense.errors import DataError

log = logging.getLogger(__name__)


class TableImages:
    """A column of images, decoded at each access; the table stays on disk."""

    def __init__(self, table: Any, column: str, crop: Crop | None, what: str) -> None:
        self.table, self.column, self.crop, self.what = table, column, crop, what
        self._told = False
        height, width = (crop.size, crop.size) if crop else tuple(self._decode(0).shape[1:])
        self.shape = torch.Size((len(table), 3, height, width))

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: Index, /) -> Tensor:
        return filled(self.shape[1:], self._fitting, torch.arange(len(self))[index].tolist())

    def _fitting(self, position: int) -> Tensor:
        pixels = self._decode(position)
        if pixels.shape != self.shape[1:]:
            raise DataError(
                f"{self.what}: image {position} is {pixels.shape[2]} x {pixels.shape[1]} but the "
                f"first is {self.shape[3]} x {self.shape[2]}: give `size` to resize and crop them."
            )
        return pixels

    def _decode(self, position: int) -> Tensor:
        try:
            picture = self.table[position][self.column]
            mode = picture.mode
            rgb = as_rgb(picture) if mode in EIGHT_BIT else None
        except Exception as error:  # a damaged table, no image, whatever Pillow makes of it
            reason = str(error).strip() or type(error).__name__
            raise DataError(
                f"{self.what}: image {position} is not readable ({reason}): remove it."
            ) from error
        if rgb is None:
            raise DataError(f"{self.what}: image {position} has more than 8 bits a channel.")
        if mode != "RGB" and not self._told:
            self._told = True
            log.info("%s: images of another kind (%s) become RGB.", self.what, mode)
        return as_pixels(self.crop(rgb) if self.crop else rgb)


def read(name: str, *, crop: Crop | None = None) -> Data:
    """`PATH-or-NAME[:SPLIT]`; an image column and a column of class labels are found by type."""
    where, _, split = name.partition(":")
    what = f"hf:{name}"
    table = _split(_tables(where, what), split, what)
    datasets = importlib.import_module("datasets")
    pictures = [key for key, kind in table.features.items() if isinstance(kind, datasets.Image)]
    classes = {
        key: kind for key, kind in table.features.items() if isinstance(kind, datasets.ClassLabel)
    }
    numbers = [
        key for key, kind in table.features.items() if str(getattr(kind, "dtype", "")) == "int64"
    ]
    label = next(iter(classes), None) or next(iter(numbers), None)
    if not pictures or label is None:
        raise DataError(
            f"{what} has the columns {', '.join(table.features)}; expected one of images and one "
            "of class labels (whole numbers)."
        )
    labels = torch.tensor(list(table[label]))
    names = classes[label].names if label in classes else ()
    if len(table) and int(labels.min()) < 0:
        raise DataError(f"{what} has images without a label (-1): name a labelled split.")
    return Data(TableImages(table, pictures[0], crop, what), labels, names)


def _tables(where: str, what: str) -> Any:
    try:
        datasets = importlib.import_module("datasets")
    except ImportError as error:
        raise DataError("hf: needs the package datasets: pip install 'igdefense[data]'.") from error
    folder = Path(where)
    try:
        with _offline(datasets):
            if any((folder / file).is_file() for file in ("state.json", "dataset_dict.json")):
                return datasets.load_from_disk(where)
            return datasets.load_dataset(where)
    except Exception as error:  # missing, damaged and foreign files raise all kinds
        if not folder.exists():
            raise DataError(
                f"{what} is neither a folder nor in the cache of datasets; load it once where "
                "there is a network: nothing is downloaded from here."
            ) from error
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise DataError(f"{what} cannot be read by datasets: {reason}") from error


def _split(tables: Any, split: str, what: str) -> Any:
    if not isinstance(tables, dict):
        if split and split != str(tables.split or split):
            raise DataError(f"{what} is the split {tables.split}; leave out {split!r}.")
        return tables
    names = list(tables)
    if split not in names and (split or len(names) > 1):
        raise DataError(f"{what} has the splits {', '.join(names)}: name one, hf:PATH:{names[-1]}.")
    return tables[split or names[0]]


@contextmanager
def _offline(datasets: Any) -> Iterator[None]:
    """Only what is on this disk, and no progress bars."""
    constants: Any = importlib.import_module("huggingface_hub.constants")
    before = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    bars = datasets.are_progress_bars_disabled()
    datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before
        if not bars:
            datasets.enable_progress_bars()
