"""What is shown while an evaluation runs: a bar on a terminal, log lines elsewhere."""

import logging
import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

log = logging.getLogger(__name__)


class Display:
    """Counts units of work: which attack, images left, broken so far, time left."""

    def __init__(self, images: int, columns: int, show: bool | None = None) -> None:
        self.total, self.done, self.broken = images * columns, 0, 0
        self.started = time.monotonic()
        self.bar: Progress | None = None
        if show or (show is None and sys.stderr.isatty()):
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[left]} image-attacks left, {task.fields[broken]} broken"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(elapsed_when_finished=True),
                console=Console(stderr=True),
                transient=True,
            )
            self.task = self.bar.add_task("starting", total=self.total, left=self.total, broken=0)

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
        left = self.total - self.done
        if self.bar:
            self.bar.update(
                self.task, description=column, advance=images, left=left, broken=self.broken
            )
            return
        spent = time.monotonic() - self.started
        log.info(
            "%s: %d images, %d misclassified; %d of %d image-attacks left, about %.0f s",
            column,
            images,
            broken,
            left,
            self.total,
            spent / max(self.done, 1) * left,
        )
