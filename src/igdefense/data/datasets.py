"""One string to data: embedded, CIFAR, ImageNet, folders of images, .npz files, `datasets`."""

import difflib
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

from igdefense.data import cifar10, cifar100, embedded, hugging_face, imagenet
from igdefense.data.crops import Crop
from igdefense.data.data import Data, Pixels
from igdefense.data.folder import IMAGE_SUFFIXES, read_folder
from igdefense.data.sources import FolderImages
from igdefense.errors import DataError, SettingError

__all__ = ["IMAGE_SUFFIXES", "load_data", "load_images", "read_folder", "read_masks", "read_npz"]
log = logging.getLogger(__name__)
FORMS = (
    "embedded:probe, embedded:test, cifar10:train, cifar10:test, cifar100:train, cifar100:test, "
    "imagenet:train, imagenet:val, imagenet:first-5000, imagenet:robustbench, folder:PATH, "
    "hf:PATH-or-NAME[:SPLIT] or FILE.npz, and a slice of it: embedded:test[500:800]"
)
NAMED = {
    "embedded": ("probe", "test"),
    "cifar10": ("train", "test"),
    "cifar100": ("train", "test"),
    "imagenet": imagenet.PARTS,
}
SIZED, ROOTED = ("folder", "imagenet", "hf"), ("cifar10", "cifar100", "imagenet")


def load_data(
    spec: str, *, root: Path | None = None, n: int | None = None, size: int | None = None
) -> Data:
    """The first `n` images; `root` is the folder of CIFAR-10, CIFAR-100 or ImageNet.

    `size` resizes and crops the images of a folder, of ImageNet (224 by default) or of `hf:`;
    `folder:PATH?crop=Crop288` names the crop as RobustBench does.
    `SPEC[from:to]`, as in `embedded:test[500:800]`, are the images at these positions.
    """
    if n is not None and n < 1:
        raise SettingError(f"n must be at least 1, got {n}.")
    if size is not None and size < 1:
        raise SettingError(f"size must be at least 1, got {size}.")
    sliced = re.fullmatch(r"(.+)\[(\d*):(\d*)\]", spec)
    if sliced and not Path(spec.removeprefix("folder:")).exists():
        first, last = (int(part) if part else None for part in sliced.groups()[1:])
        whole = _whole(sliced[1], root, last, size)
        return _first(_slice(whole, first or 0, spec), n, spec)
    return _whole(spec, root, n, size)


def _whole(spec: str, root: Path | None, n: int | None, size: int | None) -> Data:
    """The first `n` images of data that are no slice."""
    named, _, option = spec.partition("?crop=")
    kind, _, name = named.partition(":")
    if (size is not None or option) and kind not in SIZED:
        raise DataError(f"size is for {', '.join(SIZED)}, not for {spec!r}: leave it out.")
    if root is not None and kind not in ROOTED:
        raise DataError(f"root is for {', '.join(ROOTED)}, not for {spec!r}.")
    crop = _crop(kind, option, size)
    if kind == "folder" and name:
        return read_folder(Path(name), n=n, crop=crop)
    if kind == "hf" and name:
        return _first(hugging_face.read(name, crop=crop), n, spec)
    if named.endswith(".npz"):
        return _first(read_npz(Path(spec)), n, spec)
    if name not in NAMED.get(kind, ()):
        known = [f"{kind}:{part}" for kind, parts in NAMED.items() for part in parts]
        close = difflib.get_close_matches(spec, known, n=2, cutoff=0.6)
        hint = f" Did you mean {' or '.join(close)}?" if close else ""
        raise DataError(f"Unknown data {spec!r}.{hint} Expected {FORMS}.")
    if kind == "imagenet":
        return imagenet.read(name, root, crop, n)
    if kind == "embedded":
        return _first(embedded.read(name), n, spec)
    return _first((cifar10 if kind == "cifar10" else cifar100).read(name, root), n, spec)


def _crop(kind: str, option: str, size: int | None) -> Crop | None:
    if option and size is not None:
        raise SettingError("size and ?crop= say the same thing twice: leave one out.")
    if option:
        return Crop.named(option)
    if size is None:
        return None
    return Crop.imagenet(size) if kind == "imagenet" else Crop.whole(size)


def _slice(data: Data, first: int, spec: str) -> Data:
    if first >= len(data):
        raise DataError(f"{spec} holds no images: there are {len(data):,} up to its end.")
    return data[first:]


def _first(data: Data, n: int | None, what: str) -> Data:
    if n is not None and n > len(data):
        raise DataError(f"{what} holds {len(data):,} images, fewer than the {n:,} asked for.")
    return data if n is None or n == len(data) else data[:n]


def load_images(paths: Sequence[Path], size: int | None = None) -> Tensor:
    """Image files without labels, all of one size, or resized and cropped to `size`."""
    return FolderImages(paths, size)[:]


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
