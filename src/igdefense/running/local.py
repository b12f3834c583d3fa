"""Run tasks in this process or in a few others; results come back as they are ready."""

import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any, Generic, TypeVar

import torch

from igdefense.errors import IGDefenseError, SettingError

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")

_shared: Any = None  # in a worker: what every task needs, sent once


class WorkerError(IGDefenseError):
    """A worker process that died."""


class Workers(Generic[Shared, Task, Result]):
    """`function(shared, task)` for many tasks, in any order, in rounds.

    With several workers each is a fresh process with its share of this machine's threads; they
    start with the first tasks and live until the `with` block ends.
    """

    def __init__(
        self, function: Callable[[Shared, Task], Result], shared: Shared, *, workers: int = 1
    ) -> None:
        if workers < 1:
            raise SettingError(f"workers = {workers}; at least 1 is needed.")
        self.function, self.shared, self.workers = function, shared, workers
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
            yield from (self.function(self.shared, task) for task in tasks)
            return
        try:
            futures = [self._started().submit(_perform, self.function, task) for task in tasks]
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool as error:
            raise WorkerError(
                "A worker process died (killed, or out of memory). What was finished is kept: the "
                "same command goes on from there."
            ) from error

    def _started(self) -> ProcessPoolExecutor:
        if self._pool is None:
            threads = max(1, torch.get_num_threads() // self.workers)
            self._pool = ProcessPoolExecutor(
                self.workers,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_receive,
                # Plain bytes for our own children: torch's shared memory does not work everywhere.
                initargs=(pickle.dumps(self.shared), threads),
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


def _perform(function: Callable[[Any, Task], Result], task: Task) -> Result:
    return function(_shared, task)
