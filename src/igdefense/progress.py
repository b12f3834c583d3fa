"""Progress of long work: a bar on a terminal, a log line now and then elsewhere."""

import logging
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

log = logging.getLogger(__name__)
T = TypeVar("T")


def track(
    items: Iterable[T], what: str, show: bool | None = None, *, total: int | None = None
) -> Iterator[T]:
    """`items`, with a bar named `what` on stderr; `show=None` shows it on a terminal only."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    if show is False or (show is None and not sys.stderr.isatty()):
        yield from _logged(items, what, total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield from bar.track(items, total=total, description=what)


def _logged(items: Iterable[T], what: str, total: int | None, every: float = 30) -> Iterator[T]:
    started = last = time.monotonic()
    for done, item in enumerate(items):
        now = time.monotonic()
        if done and now - last > every:
            last = now
            left = f", {(now - started) / done * (total - done):.0f} s left" if total else ""
            log.info("%s: %d of %s%s", what, done, total or "?", left)
        yield item
