"""Run tasks in this process or in a few others; results come back as they are ready."""

import multiprocessing
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ClassVar, Generic

import torch

from igdefense.errors import SettingError
from igdefense.running.pool import Job, Logged, Result, Shared, Task, Watch, WorkerError

_shared: Any = None  # in a worker: what every task needs, sent once


@dataclass(frozen=True)
class Local:
    """This machine: this process alone, or so many others."""

    workers: int = 1
    far: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise SettingError(f"workers = {self.workers}; at least 1 is needed.")

    def size(self) -> int:
        return self.workers

    def __enter__(self) -> "Local":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is kept between jobs."""

    def pool(
        self, job: Job[Any, Task, Result], watch: Watch | None = None
    ) -> "Workers[Any, Task, Result]":
        return Workers(job, workers=self.workers, watch=watch)


class Workers(Generic[Shared, Task, Result]):
    """The tasks of a job, the big ones first, in rounds.

    With several workers each is a fresh process with its share of this machine's threads; they
    start with the first tasks and live until the `with` block ends.
    """

    def __init__(
        self, job: Job[Shared, Task, Result], *, workers: int = 1, watch: Watch | None = None
    ) -> None:
        self.job, self.workers, self.watch = job, workers, watch or Logged()
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> "Workers[Shared, Task, Result]":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is None:
            return
        if error is not None:
            for process in list((self._pool._processes or {}).values()):
                process.terminate()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def results(self, tasks: Iterable[Task]) -> Iterator[Result]:
        """The results of these tasks, each as soon as it is ready."""
        tasks = list(tasks)
        if self.workers == 1:
            for task in tasks:
                started = time.monotonic()
                result = self.job.function(self.job.shared, task)
                self._tell("this process", task, time.monotonic() - started)
                yield result
            return
        tasks.sort(key=self.job.cost, reverse=True)
        try:
            submit = self._started().submit
            futures = {submit(_perform, self.job.function, task): task for task in tasks}
            for future in as_completed(futures):
                worker, seconds, result = future.result()
                self._tell(f"process {worker}", futures.pop(future), seconds)
                yield result
        except BrokenProcessPool as error:
            raise WorkerError(
                "A worker process died (killed, or out of memory). What was finished is kept: the "
                "same command goes on from there."
            ) from error

    def _tell(self, worker: str, task: Task, seconds: float) -> None:
        self.watch.worked(worker, self.job.images(task), seconds)

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            threads = max(1, torch.get_num_threads() // self.workers)
            self._pool = ProcessPoolExecutor(
                self.workers,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_receive,
                # Plain bytes for our own children: torch's shared memory does not work everywhere.
                initargs=(pickle.dumps(self.job.shared), threads),
            )
        return self._pool


def _receive(shared: bytes, threads: int) -> None:
    global _shared  # noqa: PLW0603
    os.environ["OMP_NUM_THREADS"] = str(threads)
    torch.set_num_threads(threads)
    _shared = pickle.loads(shared)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for its next task for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _perform(function: Callable[[Any, Task], Result], task: Task) -> tuple[int, float, Result]:
    started = time.monotonic()
    result = function(_shared, task)
    return os.getpid(), time.monotonic() - started, result
