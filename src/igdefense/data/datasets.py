"""One string to data: embedded, CIFAR-10, a folder of images or an .npz file."""

import logging
import re
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from igdefense.data import cifar10, embedded
from igdefense.data.data import Data, Pixels
from igdefense.data.sources import FolderImages
from igdefense.errors import DataError, SettingError

log = logging.getLogger(__name__)
FORMS = (
    "embedded:probe, embedded:test, cifar10:train, cifar10:test, folder:PATH or FILE.npz, "
    "and a slice of it: embedded:test[500:800]"
)
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".ppm")


def load_data(
    spec: str, *, root: Path | None = None, n: int | None = None, size: int | None = None
) -> Data:
    """The first `n` images; `root` is CIFAR-10's folder, `size` resizes and crops a folder's.

    `SPEC[from:to]`, as in `embedded:test[500:800]`, are the images at these positions.
    """
    if n is not None and n < 1:
        raise SettingError(f"n must be at least 1, got {n}.")
    if size is not None and size < 1:
        raise SettingError(f"size must be at least 1, got {size}.")
    sliced = re.fullmatch(r"(.+)\[(\d*):(\d*)\]", spec)
    if sliced and not Path(spec.removeprefix("folder:")).exists():
        first, last = (int(part) if part else None for part in sliced.groups()[1:])
        whole = load_data(sliced[1], root=root, size=size, n=last)
        return _first(_slice(whole, first or 0, spec), n, spec)
    kind, _, name = spec.partition(":")
    if size is not None and kind != "folder":
        raise DataError(f"size is for folder:PATH, not for {spec!r}: leave it out.")
    if root is not None and kind != "cifar10":
        raise DataError(f"root is for cifar10:train and cifar10:test, not for {spec!r}.")
    if spec in ("embedded:probe", "embedded:test"):
        return _first(embedded.read(name), n, spec)
    if spec in ("cifar10:train", "cifar10:test"):
        return _first(cifar10.read(name, root), n, spec)
    if kind == "folder" and name:
        return read_folder(Path(name), n=n, size=size)
    if spec.endswith(".npz"):
        return _first(read_npz(Path(spec)), n, spec)
    raise DataError(f"Unknown data {spec!r}; expected {FORMS}.")


def _slice(data: Data, first: int, spec: str) -> Data:
    if first >= len(data):
        raise DataError(f"{spec} holds no images: there are {len(data):,} up to its end.")
    return data[first:]


def _first(data: Data, n: int | None, what: str) -> Data:
    _check_enough(len(data), n, what)
    return data if n is None or n == len(data) else data[:n]


def _check_enough(count: int, n: int | None, what: str) -> None:
    if n is not None and n > count:
        raise DataError(f"{what} holds {count:,} images, fewer than the {n:,} asked for.")


def load_images(paths: Sequence[Path], size: int | None = None) -> Tensor:
    """Image files without labels, all of one size, or resized and cropped to `size`."""
    return FolderImages(paths, size)[:]


def read_folder(folder: Path, *, n: int | None = None, size: int | None = None) -> Data:
    """One sub-folder a class, in alphabetical order; images are decoded when asked for."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; expected one sub-folder of images per class.")
    classes = sorted(f for f in folder.iterdir() if f.is_dir() and not f.name.startswith("."))
    if not classes:
        raise DataError(f"{folder} has no sub-folders; expected one per class.")
    paths: list[Path] = []
    labels: list[int] = []
    for label, inside in enumerate(classes):
        found = sorted(p for p in inside.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES)
        found = [path for path in found if not path.name.startswith(".")]
        if not found:
            raise DataError(
                f"{inside} holds no images ({', '.join(IMAGE_SUFFIXES)}): add some or remove it."
            )
        paths += found
        labels += [label] * len(found)
    _check_enough(len(paths), n, str(folder))
    images = FolderImages(paths[:n], size)
    return Data(images, torch.tensor(labels[:n]), [inside.name for inside in classes])


def read_npz(path: Path) -> Data:
    """Arrays `images` (uint8, or floats in [0, 1]), `labels` and, if there, `class_names`."""
    if not path.is_file():
        raise DataError(f"{path} is missing; expected an .npz file with `images` and `labels`.")
    try:
        with path.open("rb") as stream:  # np.load leaves a damaged file open
            if not zipfile.is_zipfile(stream):
                raise zipfile.BadZipFile("it is no zip archive, or a truncated one")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as file:
                missing = [name for name in ("images", "labels") if name not in file.files]
                if missing:
                    raise DataError(
                        f"{path} has no array {' or '.join(missing)}; it holds "
                        f"{', '.join(file.files) or 'none'}. Save `images` and `labels`."
                    )
                named = "class_names" in file.files
                names = file["class_names"] if named else np.array([], dtype=str)
                labels, images = _labels(file["labels"], path), _images(file["images"], path)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"{path} is not an .npz file of plain arrays ({reason}): "
            "save it with numpy.savez, names as text and not as objects."
        ) from error
    return Data(images, labels, _names(names, path))


def read_masks(path: Path) -> Tensor:
    """An .npy file of whole numbers: images x height x width, the class of each pixel or -1."""
    if not path.is_file():
        raise DataError(f"{path} is missing; expected an .npy file of pixel classes.")
    try:
        with path.open("rb") as stream:  # np.load leaves a damaged file open
            array = np.load(stream, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"{path} is not an .npy file of plain numbers ({reason}): save it with numpy.save."
        ) from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu" or array.ndim != 3:
        raise DataError(
            f"{path} does not hold whole numbers for (images, height, width): save the class of "
            "every pixel, or -1, with numpy.save."
        )
    return torch.from_numpy(array.astype(np.int64))


def _images(array: NDArray[Any], path: Path) -> Tensor | Pixels:
    if array.dtype != np.uint8 and array.dtype.kind != "f":
        raise DataError(f"{path}: images are {array.dtype}; expected uint8, or floats in [0, 1].")
    if array.ndim != 4 or not {array.shape[1], array.shape[3]} & {1, 3}:
        raise DataError(
            f"{path}: images have shape {array.shape}; expected (images, channels, height, width) "
            "or (images, height, width, channels) with 1 or 3 channels."
        )
    if array.shape[1] not in (1, 3):
        array = array.transpose(0, 3, 1, 2)
        log.info("%s: images are read as (images, height, width, channels).", path)
    if array.dtype == np.uint8:
        return Pixels(torch.from_numpy(np.ascontiguousarray(array)))
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))


def _labels(array: NDArray[Any], path: Path) -> Tensor:
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(
            f"{path}: labels are {array.dtype} of shape {array.shape}; "
            "expected one whole number for each image."
        )
    return torch.from_numpy(array.astype(np.int64))


def _names(array: NDArray[Any], path: Path) -> list[str]:
    decode: dict[str, Callable[[Any], str]] = {"U": str, "S": lambda name: name.decode("utf-8")}
    if array.ndim != 1 or array.dtype.kind not in decode:
        raise DataError(f"{path}: class_names are {array.dtype}; expected a list of text.")
    return [decode[array.dtype.kind](name) for name in array]
