"""Files that are either whole or absent."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from igdefense.errors import OutputError


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its name when the block ends well."""
    with in_folder(path.parent):
        try:
            handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
            os.close(handle)
        except OSError as error:
            raise _unwritable(path, error) from error
        part = Path(name)
        try:
            yield part
            part.chmod(0o666 & ~_umask())
            part.replace(path)
        except (OSError, SafetensorError) as error:  # a full disk can be either
            raise _unwritable(path, error) from error
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def in_folder(folder: Path) -> Iterator[None]:
    """The folder is there inside the block; if the block fails, no empty new folder is left."""
    made: list[Path] = []
    try:
        made = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _remove_empty(made)
        raise _unwritable(folder, error) from error
    try:
        yield
    except BaseException:
        _remove_empty(made)
        raise


def refuse_existing(path: Path, force: bool) -> None:
    """An error before any work if the output is already there, or can never be."""
    try:
        exists = path.exists()
        nearest = next(place for place in (path.parent, *path.parent.parents) if place.exists())
    except OSError as error:
        raise _unwritable(path, error) from error
    if exists and not force:
        raise OutputError(f"{path} exists already; choose another name or pass --force.")
    if not nearest.is_dir():
        raise OutputError(f"{path} cannot be written: {nearest} is not a folder.")
    if not os.access(nearest, os.W_OK):
        raise OutputError(f"{path} cannot be written: {nearest} is read-only.")


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def _unwritable(path: Path, error: Exception) -> OutputError:
    reason = error.strerror if isinstance(error, OSError) else None
    return OutputError(f"{path} cannot be written: {reason or error}.")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
