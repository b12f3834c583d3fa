"""Time two ways of doing a thing in turns, so that a slow moment of the machine meets both."""

import time
from collections.abc import Callable
from statistics import median

Work = Callable[[], object]


def ratios(one: Work, other: Work, *, rounds: int, calls: int = 1) -> list[float]:
    """The time of `one` over that of `other`, once for each round.

    Within a round the two alternate `calls` times, and who goes first alternates too; the round's
    ratio is that of the two medians. Both are run once before, unmeasured.
    """
    one(), other()
    return [_round(one, other, calls, swap=bool(number % 2)) for number in range(rounds)]


def _round(one: Work, other: Work, calls: int, *, swap: bool) -> float:
    times: dict[Work, list[float]] = {one: [], other: []}
    for call in range(calls):
        pair = (other, one) if swap ^ bool(call % 2) else (one, other)
        for work in pair:
            times[work].append(seconds(work))
    return median(times[one]) / median(times[other])


def seconds(work: Work) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
