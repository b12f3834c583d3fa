import itertools
import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from igdefense.running.order import Order, Unit
from igdefense.running.pool import Job

Range = tuple[int, int]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def halves(task: Range, parts: int) -> list[Range]:
    start, end = task
    count = min(parts, end - start)
    edges = [start + (end - start) * i // count for i in range(count + 1)]
    return list(itertools.pairwise(edges))


def ordered(tasks: Iterable[Range], clock: Clock | None = None) -> Order[Range, Range]:
    """Tasks that cost one second for each of their numbers."""

    def result(_: None, task: Range) -> Range:
        return task

    job: Job[Any, Range, Range] = Job(result, None, cost=lambda t: t[1] - t[0], cut=halves)
    return Order(job, tasks, clock or Clock())


def drained(order: Order[Range, Range]) -> list[Range]:
    tasks = []
    while (unit := order.next(1)) is not None:
        tasks.append(unit.task)
    return tasks


def test_the_big_ones_come_first() -> None:
    assert drained(ordered([(0, 2), (2, 9), (9, 13)])) == [(2, 9), (9, 13), (0, 2)]


def test_when_fewer_units_wait_than_workers_the_biggest_is_cut() -> None:
    order = ordered([(0, 8)])
    got = [order.next(idle) for idle in (2, 1)]
    assert [unit and unit.task for unit in got] == [(0, 4), (4, 8)]
    assert order.next(1) is None


def test_pieces_count_once_all_of_them_are_done() -> None:
    order = ordered([(0, 8)])
    one, two = order.next(2), order.next(1)
    assert one is not None
    assert two is not None
    assert list(order.done(one, one.task, 4)) == []
    assert not order.finished
    assert sorted(order.done(two, two.task, 4)) == [(0, 4), (4, 8)]
    assert order.finished


def straggling(clock: Clock) -> tuple[Order[Range, Range], Unit[Range, Range]]:
    """Two equal units, one of which was done in ten seconds; the other is still on its way."""
    order = ordered([(0, 10), (10, 20)], clock)
    quick, slow = order.next(2), order.next(1)
    assert quick is not None
    assert slow is not None
    clock.now = 10
    assert list(order.done(quick, quick.task, 10)) == [quick.task]
    return order, slow


def test_a_straggler_is_cut_only_when_that_is_worth_it() -> None:
    clock = Clock()
    order, slow = straggling(clock)
    assert order.next(1) is None  # it may be done at any moment
    clock.now = 40  # four times as long as the other
    piece = order.next(1)
    assert piece is not None
    assert piece.whole is slow
    assert piece.task in ((10, 15), (15, 20))


def test_many_idle_workers_take_a_unit_that_has_just_begun() -> None:
    clock = Clock()
    order, slow = straggling(clock)
    slow.started = 9  # the other unit was done a second later
    pieces = [order.next(idle) for idle in (5, 4, 3, 2, 1)]
    assert [piece and piece.whole for piece in pieces] == [slow] * 5


@pytest.mark.parametrize("first", ["whole", "pieces"])
def test_a_straggler_and_its_pieces_count_once(first: str) -> None:
    clock = Clock()
    order, slow = straggling(clock)
    clock.now = 40
    pieces = [order.next(1), order.next(1)]
    found: list[Range] = []
    if first == "whole":
        found += order.done(slow, slow.task, 41)
    for piece in pieces:
        assert piece is not None
        found += order.done(piece, piece.task, 5)
    if first == "pieces":
        found += order.done(slow, slow.task, 60)
    assert found == ([(10, 20)] if first == "whole" else [(10, 15), (15, 20)])
    assert order.finished


def test_a_unit_whose_worker_died_waits_again_and_remembers() -> None:
    order = ordered([(0, 3)])
    unit = order.next(1)
    assert unit is not None
    order.back(unit)
    assert order.next(1) is unit
    assert unit.deaths == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(0, 10**6))
def test_whatever_happens_every_number_is_counted_once(sizes: list[int], seed: int) -> None:
    """Workers that end, die, dawdle and overtake one another, in any order."""
    chance = random.Random(seed)
    clock, starts = Clock(), [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    order = ordered(itertools.pairwise(starts), clock)
    busy: list[Unit[Range, Range]] = []
    found: list[Range] = []
    while not order.finished:
        clock.now += chance.choice([0.1, 1, 20])
        idle = 4 - len(busy)
        if idle and chance.random() < 0.6:
            unit = order.next(idle)
            busy += [unit] if unit else []
        elif busy:
            unit = busy.pop(chance.randrange(len(busy)))
            if chance.random() < 0.2:
                order.back(unit)
            else:
                found += order.done(unit, unit.task, chance.choice([0.1, 1, 9]))
    assert sorted(number for start, end in found for number in range(start, end)) == list(
        range(starts[-1])
    )
