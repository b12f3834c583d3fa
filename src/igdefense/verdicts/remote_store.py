"""A store at an address that fsspec knows, `s3://bucket/folder` say; and any store by its name."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fsspec
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from igdefense.errors import IGDefenseError, OutputError, SettingError
from igdefense.verdicts.store import SIGN, Store, check_sum, log, name_in

OBJECTS = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss")  # no folders; a put is all or nothing
EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs"}
HEADER = 2**14  # bytes that hold the names of a few hundred images
AT_ONCE = 16  # files


def store_at(place: str | Path) -> Store:
    """The store in a folder, or at an address with `://`."""
    text = str(place)
    if "://" in text and not text.startswith("file://"):
        return RemoteStore(text)
    return Store(Path(text.removeprefix("file://")).absolute())


class RemoteStore(Store):
    """As `Store`, over fsspec. What is in a file never changes, so its list of images is kept."""

    def __init__(self, address: str) -> None:
        self.root = address.rstrip("/")
        self.name = None
        self.protocol = address.partition("://")[0]
        self._opened: tuple[Any, str] | None = None
        self._ids: dict[str, list[str]] = {}  # by file
        self._open()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None, "_ids": {}}  # made again in each process

    def away(self, error: Exception) -> bool:
        """Anything but a missing file, a refusal or our own mistake: networks fail in many ways."""
        lasting = (FileNotFoundError, PermissionError, ImportError, ValueError, TypeError, KeyError)
        return not isinstance(error, (IGDefenseError, AttributeError, *lasting))

    def _open(self) -> tuple[Any, str]:
        """The file system and the folder in it."""
        if self._opened is None:
            options: dict[str, Any] = {}
            if self.protocol in ("s3", "s3a"):  # one who tries again, and says so, is enough
                options["config_kwargs"] = {"retries": {"max_attempts": 1}}
            try:
                files, folder = fsspec.core.url_to_fs(self.root, **options)
            except ImportError as error:
                extra = EXTRAS.get(self.protocol)
                how = f"pip install 'igdefense[{extra}]'" if extra else str(error)
                raise SettingError(
                    f"The store {self.root} needs another package: {how}."
                ) from error
            except ValueError as error:
                raise SettingError(f"{self.root} is no address of a store: {error}.") from error
            if hasattr(files, "retries"):
                files.retries = 1
            self._opened = (files, folder.rstrip("/"))
        return self._opened

    def _found(self, unit: str, ids: Sequence[str]) -> dict[str, Tensor]:
        wanted, found = set(ids), dict[str, Tensor]()
        paths = self._listed(unit)
        self._learn([path for path in paths if path not in self._ids])
        needed, covered = [], set[str]()
        for path in paths:
            more = wanted.intersection(self._ids.get(path, ())) - covered
            if more:
                needed.append(path)
                covered |= more
        for start in range(0, len(needed), AT_ONCE):
            some = needed[start : start + AT_ONCE]
            for path, content in self._open()[0].cat(some, on_error="return").items():
                found |= self._read_content(path, content, wanted)
        return found

    def _listed(self, unit: str) -> list[str]:
        files, folder = self._open()
        files.invalidate_cache()  # other workers write, too
        try:
            paths = files.ls(f"{folder}/{unit}", detail=False)
        except FileNotFoundError:
            return []
        return sorted(path for path in paths if path.endswith(".safetensors"))

    def _learn(self, paths: list[str]) -> None:
        """Read which images are in these files."""
        files, _ = self._open()
        for start in range(0, len(paths), AT_ONCE):
            some = paths[start : start + AT_ONCE]
            heads = files.cat_ranges(some, 0, HEADER, on_error="return")
            for path, head in zip(some, heads, strict=True):
                self._ids[path] = _ids_in(self._sound(path, head) or b"")
                if not self._ids[path]:  # more names than expected, or damage
                    content = files.cat([path], on_error="return")[path]
                    self._ids[path] = _ids_in(self._sound(path, content) or b"")

    def _sound(self, path: str, content: bytes | Exception) -> bytes | None:
        """The content, or None where another worker has just dropped the file."""
        if isinstance(content, FileNotFoundError):
            return None
        if isinstance(content, Exception):
            raise content
        return content

    def _read_content(
        self, path: str, content: bytes | Exception, wanted: set[str]
    ) -> dict[str, Tensor]:
        whole = self._sound(path, content)
        if whole is None:
            return {}
        try:
            ids = self._ids[path]
            x = load(whole)["x"]
            check_sum(ids, x, _metadata(whole))
        except (SafetensorError, KeyError, ValueError) as error:
            log.warning("%s is damaged (%s); it is made anew.", path, error)
            self._ids.pop(path, None)
            self._open()[0].rm_file(path)
            return {}
        return {name: x[i] for i, name in enumerate(ids) if name in wanted}

    def _write(self, unit: str, file: str, x: Tensor, header: dict[str, str]) -> None:
        self._pipe(f"{unit}/{file}", save({"x": x}, metadata=header))
        self._ids.pop(f"{self._open()[1]}/{unit}/{file}", None)

    def _read_sign(self) -> str | None:
        files, folder = self._open()
        try:
            return name_in(files.cat_file(f"{folder}/{SIGN}"))
        except FileNotFoundError:
            return None

    def _write_sign(self, content: str) -> None:
        self._pipe(SIGN, content.encode())

    def _pipe(self, name: str, content: bytes) -> None:
        files, folder = self._open()
        path = f"{folder}/{name}"
        try:
            if self.protocol not in OBJECTS:
                files.makedirs(path.rpartition("/")[0], exist_ok=True)
            files.pipe_file(path, content)
        except (FileNotFoundError, PermissionError) as error:
            reason = str(error).strip().rstrip(".") or type(error).__name__
            raise OutputError(f"The store {self.root} cannot be written: {reason}.") from error


def _metadata(content: bytes) -> dict[str, str]:
    length = int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8 : 8 + length])
    return dict(header["__metadata__"])


def _ids_in(content: bytes) -> list[str]:
    """The names of a file's images, from its beginning; none where that is not enough."""
    try:
        return list(json.loads(_metadata(content)["ids"]))
    except (ValueError, KeyError, TypeError):
        return []
