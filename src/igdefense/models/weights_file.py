"""Tensors from a checkpoint file; the file stays data, no code in it ever runs."""

import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from igdefense.errors import ModelError

TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".tar", ".ckpt")
SUFFIXES = (".safetensors", *TORCH_SUFFIXES)
LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # torch.save before 1.6


def read_weights(path: Path) -> dict[str, Any]:
    """What the file holds: tensors by name, or dicts of them with the training's other records."""
    _check_file(path)
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    content = _read_torch(path)
    if not isinstance(content, dict):
        raise ModelError(
            f"{path} holds a {type(content).__name__}, not weights by name. "
            "Save `model.state_dict()`."
        )
    return content


def _check_file(path: Path) -> None:
    if not path.is_file():
        what = "a folder" if path.is_dir() else "missing"
        raise ModelError(f"{path} is {what}; expected a checkpoint ({', '.join(SUFFIXES)}).")
    if path.suffix not in SUFFIXES:
        raise ModelError(
            f"{path} ends in {path.suffix or 'nothing'}; checkpoints end in {', '.join(SUFFIXES)}."
        )
    with path.open("rb") as file:
        start = file.read(1024)
    if not start:
        raise ModelError(f"{path} is empty: the download or copy failed, fetch it again.")
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype", b"<html", b"<head", b"<?xml", b"<body")):
        raise ModelError(
            f"{path} is an HTML page, not a checkpoint: the download was redirected "
            "(to a login or a confirmation, say). Open the address in a browser and save the file."
        )
    if start.startswith(b"version https://git-lfs.github.com/spec"):
        raise ModelError(
            f"{path} is a Git LFS pointer, not the checkpoint itself: run `git lfs pull`."
        )
    if path.suffix in TORCH_SUFFIXES and not start.startswith((b"PK", LEGACY)):
        if re.match(rb"\x80[\x02-\x05]", start):
            raise _needs_pickle(path, "it is a plain pickle")
        raise ModelError(
            f"{path} is not a PyTorch checkpoint (it begins with {start[:8]!r}): fetch it again."
        )


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise _damaged(path, error) from error


def _read_torch(path: Path) -> object:
    if _is_torchscript(path):
        raise _needs_pickle(path, "it is a TorchScript archive")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickle protocols
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # hostile or broken bytes can raise anything
        message = str(error)
        if found := re.search(r"GLOBAL ([\w.]+)", message):
            raise _needs_pickle(path, f"it asks for {found[1]}") from error
        if "Weights only load failed" in message:
            raise _needs_pickle(path, "it holds more than tensors") from error
        raise _damaged(path, error) from error


def _is_torchscript(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/constants.pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError):
        return False


def _damaged(path: Path, error: Exception) -> ModelError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
    size = path.stat().st_size
    return ModelError(
        f"{path} is truncated or damaged ({size:,} bytes; {reason}): fetch or copy it again."
    )


def _needs_pickle(path: Path, why: str) -> ModelError:
    return ModelError(
        f"{path} needs pickle ({why}): loading it would run code from the file, so it is refused. "
        "Where you trust it, convert it: `safetensors.torch.save_model(model, "
        f"'{path.stem}.safetensors')`, or `safetensors.torch.save_file(torch.load('{path.name}', "
        f"weights_only=False)['state_dict'], '{path.stem}.safetensors')`."
    )
