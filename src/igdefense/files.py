"""Files that are either whole or absent."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from igdefense.errors import OutputError


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its name when the block ends well."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        os.close(handle)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}.") from error
    part = Path(name)
    try:
        yield part
        part.chmod(0o666 & ~_umask())
        part.replace(path)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}.") from error
    finally:
        part.unlink(missing_ok=True)


def refuse_existing(path: Path, force: bool) -> None:
    """An error before any work if the output is already there."""
    if path.exists() and not force:
        raise OutputError(f"{path} exists already; choose another name or pass --force.")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
