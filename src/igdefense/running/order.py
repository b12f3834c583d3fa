"""Which unit of work comes next: the big ones first, and what to cut while workers are idle."""

import heapq
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Generic

from igdefense.running.pool import Job, Result, Task

WORTH = 3.0  # seconds that cutting must save: a smaller unit has its own overhead
SLOW = 1.5  # times as long as others of its kind: a straggler


@dataclass(eq=False)
class Unit(Generic[Task, Result]):
    """A task on its way: waiting, handed out, or done."""

    task: Task
    cost: float
    kind: Hashable
    whole: "Unit[Task, Result] | None" = None  # what it is a piece of
    pieces: "list[Unit[Task, Result]]" = field(default_factory=list)
    results: list[Result] | None = None
    started: float | None = None
    deaths: int = 0  # of workers that had it

    @property
    def settled(self) -> bool:
        """Whether nobody needs to work on it any more."""
        return self.results is not None or (self.whole is not None and self.whole.settled)


class Order(Generic[Task, Result]):
    """The units of one round. Ray moves them to workers; here is only what to hand out next.

    A unit that was handed out may be cut into pieces for idle workers. Whichever is done first,
    the unit or all of its pieces, counts; the other is ignored, so nothing counts twice.
    """

    def __init__(
        self,
        job: Job[Any, Task, Result],
        tasks: Iterable[Task],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.job, self.clock = job, clock
        self._number = 0
        self._waiting: list[tuple[float, int, Unit[Task, Result]]] = []
        self._handed: list[Unit[Task, Result]] = []
        self._seconds: dict[Hashable, list[float]] = {}
        self.units = [self._unit(task) for task in tasks]
        for unit in self.units:
            self._push(unit)

    @property
    def finished(self) -> bool:
        return all(unit.settled for unit in self.units)

    def __contains__(self, unit: object) -> bool:
        """Whether it was handed out by this round."""
        return any(unit is one for one in self._handed)

    def next(self, idle: int) -> Unit[Task, Result] | None:
        """The next unit for one of so many idle workers; None if they had better wait."""
        self._drop_settled()
        if not self._waiting:
            self._cut_straggler(idle)
        if not self._waiting:
            return None
        unit = heapq.heappop(self._waiting)[2]
        share = -(-idle // (len(self._waiting) + 1))
        if share > 1 and self._expected(unit, unknown=WORTH) >= WORTH and self._cut(unit, share):
            return self.next(idle)
        unit.started = self.clock()
        self._handed.append(unit)
        return unit

    def done(self, unit: Unit[Task, Result], result: Result, seconds: float) -> Iterator[Result]:
        """What counts from now on: the results of a unit, or of all the pieces of one."""
        self._forget(unit)
        self._seconds.setdefault(unit.kind, []).append(seconds / unit.cost)
        if unit.settled:
            return
        unit.results = [result]
        while unit.whole is not None:
            unit = unit.whole
            if any(piece.results is None for piece in unit.pieces):
                return
            unit.results = [one for piece in unit.pieces for one in piece.results or []]
        yield from unit.results or []

    def back(self, unit: Unit[Task, Result]) -> None:
        """Its worker is gone: it waits again, unless its pieces are on their way."""
        self._forget(unit)
        unit.deaths += 1
        if not unit.pieces:
            self._push(unit)

    def _unit(self, task: Task, whole: Unit[Task, Result] | None = None) -> Unit[Task, Result]:
        cost = max(float(self.job.cost(task)), 1e-9)
        return Unit(task, cost, self.job.kind(task), whole, deaths=whole.deaths if whole else 0)

    def _push(self, unit: Unit[Task, Result]) -> None:
        self._number += 1
        heapq.heappush(self._waiting, (-unit.cost, self._number, unit))

    def _forget(self, unit: Unit[Task, Result]) -> None:
        if unit in self._handed:
            self._handed.remove(unit)

    def _drop_settled(self) -> None:
        while self._waiting and self._waiting[0][2].settled:
            heapq.heappop(self._waiting)

    def _expected(self, unit: Unit[Task, Result], unknown: float = 0.0) -> float:
        """Seconds, from what units of its kind have taken."""
        seen = self._seconds.get(unit.kind)
        return median(seen) * unit.cost if seen else unknown

    def _cut(self, unit: Unit[Task, Result], parts: int) -> bool:
        if self.job.cut is None:
            return False
        tasks = self.job.cut(unit.task, parts)
        if len(tasks) < 2:
            return False
        unit.pieces = [self._unit(task, unit) for task in tasks]
        for piece in unit.pieces:
            self._push(piece)
        return True

    def _cut_straggler(self, idle: int) -> None:
        """The unit that idle workers would finish much earlier than the worker that has it."""
        now, longest = self.clock(), None
        for unit in self._handed:
            expected = self._expected(unit)
            if unit.settled or unit.pieces or not expected or unit.started is None:
                continue
            spent = now - unit.started
            # One that is overdue may take as long again as it was late with.
            left = spent / 2 if spent > SLOW * expected else expected - spent
            gain = left - SLOW * expected / idle
            if gain > WORTH and (longest is None or gain > longest[0]):
                longest = (gain, unit)
        if longest is not None:
            self._cut(longest[1], max(2, idle))
