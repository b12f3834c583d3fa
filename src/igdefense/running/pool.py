"""What every place to run units of work looks like: a backend gives pools, a pool gives results."""

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from igdefense.errors import IGDefenseError

log = logging.getLogger(__name__)
Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)
Task_contra = TypeVar("Task_contra", contravariant=True)


class WorkerError(IGDefenseError):
    """A worker that died, and nobody to take over."""


@runtime_checkable
class Watch(Protocol):
    """Who is told what the workers do."""

    def worked(self, worker: str, images: int, seconds: float) -> None:
        """A worker has spent so long on a unit of so many images."""
        ...

    def say(self, text: str) -> None:
        """Something happened that a user should know of."""
        ...


class Logged:
    """Writes what happened to the log, and counts nothing."""

    def worked(self, worker: str, images: int, seconds: float) -> None:
        pass

    def say(self, text: str) -> None:
        log.warning("%s", text)


@dataclass(frozen=True)
class Job(Generic[Shared, Task, Result]):
    """`function(shared, task)` for many tasks, and what a backend may know about a task.

    The function travels to the workers by name, `shared` once; it may have `parts`, big values
    that other jobs have too, `to(device)`, and `arrived()`, which a worker calls once. The other
    fields stay here.
    """

    function: Callable[[Shared, Task], Result]
    shared: Shared
    cost: Callable[[Task], float] = lambda _: 1.0  # relative: the big ones go first
    kind: Callable[[Task], Hashable] = lambda _: None  # tasks of a kind take as long for their cost
    cut: Callable[[Task, int], Sequence[Task]] | None = None  # into so many, or fewer, smaller ones
    images: Callable[[Task], int] = lambda _: 1
    name: Callable[[Task], str] = str


@runtime_checkable
class Pool(Protocol[Task_contra, Result_co]):
    """Workers for one job, inside a `with` block; leaving it by an error stops them."""

    @property
    def workers(self) -> int:
        """How many there are, or will be once they have started."""
        ...

    def __enter__(self) -> "Pool[Task_contra, Result_co]": ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def results(self, tasks: Iterable[Task_contra]) -> Iterator[Result_co]:
        """The results of these tasks, each as soon as it is ready; one that was cut has several."""
        ...


@runtime_checkable
class Backend(Protocol):
    """Where units of work run; a `with` block around several jobs may keep the workers."""

    @property
    def far(self) -> bool:
        """Whether workers may be on other machines, which see shared folders at most."""
        ...

    def size(self) -> int:
        """How many workers there will be."""
        ...

    def __enter__(self) -> "Backend": ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def pool(self, job: Job[Any, Task, Result], watch: Watch | None = None) -> Pool[Task, Result]:
        """Workers for this job; `watch` is told how they fare."""
        ...


def in_order(
    backend: Backend, job: Job[Any, Task, Result], tasks: Sequence[Task]
) -> Iterator[Result]:
    """The results of tasks that are not cut, in the order of the tasks."""
    numbered = Job(_Numbered(job.function), job.shared, lambda t: job.cost(t[1]))
    early: dict[int, Result] = {}
    wanted = 0
    with backend.pool(numbered) as pool:
        for number, result in pool.results(list(enumerate(tasks))):
            early[number] = result
            while wanted in early:
                yield early.pop(wanted)
                wanted += 1


@dataclass(frozen=True)
class _Numbered(Generic[Shared, Task, Result]):
    """A function that hands back the number it was given."""

    function: Callable[[Shared, Task], Result]

    def __call__(self, shared: Shared, task: tuple[int, Task]) -> tuple[int, Result]:
        return task[0], self.function(shared, task[1])
