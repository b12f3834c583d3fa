"""What is shown while an evaluation runs: a bar on a terminal, log lines elsewhere."""

import logging
import sys
import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

log = logging.getLogger(__name__)
FEW = 3  # workers that are named


class Display:
    """Counts units of work: which attack, units done, images left, broken so far, time left, and
    how fast each worker is, wherever it runs."""

    def __init__(self, images: int, columns: int, show: bool | None = None) -> None:
        self.total, self.done, self.broken, self.units = images * columns, 0, 0, 0
        self.started = time.monotonic()
        self.work: dict[str, tuple[int, float]] = {}  # images and seconds of each worker
        self.bar: Progress | None = None
        if show or (show is None and sys.stderr.isatty()):
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[units]} units done,"),
                TextColumn("{task.fields[left]} image-attacks left, {task.fields[broken]} broken"),
                TextColumn("{task.fields[speed]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(elapsed_when_finished=True),
                console=Console(stderr=True),
                transient=True,
            )
            fields: dict[str, Any] = {"left": self.total, "broken": 0, "units": 0, "speed": ""}
            self.task = self.bar.add_task("starting", total=self.total, **fields)

    def __enter__(self) -> "Display":
        if self.bar:
            self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar:
            self.bar.stop()

    def skip(self, images: int) -> None:
        """So many images have fallen and are not attacked again by the next column."""
        self.total -= images
        if self.bar:
            self.bar.update(self.task, total=self.total, left=self.total - self.done)

    def report(self, column: str, images: int, broken: int) -> None:
        """`column` is finished on so many images, of which so many are misclassified."""
        self.done += images
        self.broken += broken
        self.units += 1
        left = self.total - self.done
        if self.bar:
            fields: dict[str, Any] = {"left": left, "broken": self.broken, "units": self.units}
            self.bar.update(
                self.task, description=column, advance=images, speed=self.speed, **fields
            )
            return
        spent = time.monotonic() - self.started
        log.info(
            "%s: %d images, %d misclassified; %d units done%s, %d of %d image-attacks left, "
            "about %.0f s",
            column,
            images,
            broken,
            self.units,
            f" ({self.speed})" if len(self.work) > 1 else "",
            left,
            self.total,
            spent / max(self.done, 1) * left,
        )

    def worked(self, worker: str, images: int, seconds: float) -> None:
        """A worker has spent so long on a unit of so many images."""
        if not self.work:
            self.started = time.monotonic() - seconds  # workers took a while to start
        before, spent = self.work.get(worker, (0, 0.0))
        self.work[worker] = (before + images, spent + seconds)

    def say(self, text: str) -> None:
        """Something happened to a worker, its machine or the store; a bar stays below it."""
        if self.bar:
            self.bar.console.print(text, markup=False, highlight=False)
        else:
            log.warning("%s", text)

    @property
    def speed(self) -> str:
        """Image-attacks a second, worker by worker while they are few."""
        rates = [images / max(seconds, 1e-3) for images, seconds in self.work.values()]
        if len(rates) > FEW:
            low, high = min(rates), max(rates)
            return f"{len(rates)} workers, {low:.3g} to {high:.3g} image-attacks/s each"
        return ", ".join(
            f"{worker}: {rate:.3g}/s" for worker, rate in zip(self.work, rates, strict=True)
        )
