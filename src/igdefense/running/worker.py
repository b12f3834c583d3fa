"""A worker on a cluster: one process that loads model and data once and takes units of any job."""

import logging
import os
import platform
import sys
import time
from dataclasses import dataclass
from typing import Any

import torch

from igdefense import __version__
from igdefense.errors import IGDefenseError, SettingError
from igdefense.running.parcel import Get, Parcel, Unpacker
from igdefense.running.pool import WorkerError


@dataclass(frozen=True)
class Place:
    """Where a worker starts and what it may use."""

    folder: str
    paths: tuple[str, ...]  # where the driver finds modules
    threads: int
    gpu: bool = False


@dataclass(frozen=True)
class Hello:
    """What a worker says of itself."""

    node: str
    host: str
    process: int
    versions: dict[str, str]


@dataclass(frozen=True)
class Record:
    """The small thing that travels back: a result or a user's mistake, and what was logged."""

    result: Any
    error: IGDefenseError | None
    seconds: float
    notes: tuple[str, ...] = ()


class Worker:
    """Performs units of work; in Ray, an actor."""

    def __init__(self, place: Place, get: Get) -> None:
        if os.path.isdir(place.folder):  # relative paths of data, where folders are shared
            os.chdir(place.folder)
        sys.path += [path for path in place.paths if path not in sys.path]
        os.environ["OMP_NUM_THREADS"] = str(place.threads)
        torch.set_num_threads(place.threads)
        self.place, self.unpacker = place, Unpacker(get)

    def perform(self, parcel: Parcel, task: Any) -> Record:
        """One unit of a job; the job is loaded when its first unit comes."""
        notes = _Notes()
        logging.getLogger("igdefense").addHandler(notes)
        started = time.monotonic()
        try:
            return Record(self._result(parcel, task), None, _since(started), notes.said)
        except IGDefenseError as error:
            return Record(None, error, _since(started), notes.said)
        finally:
            logging.getLogger("igdefense").removeHandler(notes)

    def _result(self, parcel: Parcel, task: Any) -> Any:
        first = parcel not in self.unpacker
        try:
            function, shared = self.unpacker.unpack(parcel)
        except (ImportError, AttributeError) as error:
            raise SettingError(
                f"{platform.node()} cannot load the model or the data ({error}): install the same "
                "packages there, or start from a folder that all machines share."
            ) from error
        if first and self.place.gpu and hasattr(shared, "to"):
            shared.to("cuda")  # the one GPU that this process sees
        if first and hasattr(shared, "arrived"):
            shared.arrived()
        try:
            return function(shared, task)
        except torch.OutOfMemoryError as error:
            raise WorkerError(
                "A worker's GPU has too little memory for a unit: choose a smaller --batch-size. "
                "What was finished is kept: the same command goes on from there."
            ) from error


def versions() -> dict[str, str]:
    """What must be the same everywhere, or verdicts would depend on where a unit ran."""
    return {
        "igdefense": __version__,
        "torch": torch.__version__.split("+")[0],  # CPU and GPU builds may work together
        "python": ".".join(platform.python_version_tuple()[:2]),
    }


class _Notes(logging.Handler):
    """Collects warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(record.getMessage())

    @property
    def said(self) -> tuple[str, ...]:
        return tuple(self._said)


def _since(started: float) -> float:
    return time.monotonic() - started
