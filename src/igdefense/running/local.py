"""Run tasks in this process or in a few others; results come back as they are ready."""

import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

import torch

from igdefense.errors import IGDefenseError, SettingError

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")

_shared: Any = None  # in a worker: what every task needs, sent once


class WorkerError(IGDefenseError):
    """A worker process that died."""


def run_tasks(
    function: Callable[[Shared, Task], Result],
    shared: Shared,
    tasks: Iterable[Task],
    *,
    workers: int = 1,
) -> Iterator[Result]:
    """`function(shared, task)` for each task, in any order.

    With several workers each is a fresh process with its share of this machine's threads.
    """
    if workers < 1:
        raise SettingError(f"workers = {workers}; at least 1 is needed.")
    tasks = list(tasks)
    workers = min(workers, len(tasks))
    if workers <= 1:
        yield from (function(shared, task) for task in tasks)
        return
    threads = max(1, torch.get_num_threads() // workers)
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_receive,
        # Plain bytes for our own children: torch's shared memory does not work everywhere.
        initargs=(pickle.dumps(shared), threads),
    )
    try:
        futures = [pool.submit(_perform, function, task) for task in tasks]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool as error:
        raise WorkerError(
            "A worker process died (killed, or out of memory). What was finished is kept: the "
            "same command goes on from there."
        ) from error
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


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
