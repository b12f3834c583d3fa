"""Small jobs for workers."""

import os
import time
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from igdefense.errors import SettingError
from igdefense.running.pool import Job


@dataclass(frozen=True, eq=False)
class Shared:
    """A big value that several jobs have, and a small one that each has."""

    big: Tensor
    factor: float

    @property
    def parts(self) -> tuple[object, ...]:
        return (self.big,)


def sleep(_: None, seconds: float) -> float:
    """Sleep; less than 0 s ends the worker, more than 5 s is refused."""
    if seconds < 0:
        os._exit(1)
    if seconds > 5:
        raise SettingError(f"{seconds} is too long.")
    time.sleep(seconds)
    return seconds


def where(shared: Shared, _: int) -> tuple[int, int]:
    """Which object the big value is, in which process."""
    return id(shared.big), os.getpid()


def sleeping(**about: Any) -> Job[None, float, float]:
    return Job(sleep, None, **about)


def process_of(_: None, seconds: float) -> int:
    """Who sleeps."""
    time.sleep(seconds)
    return os.getpid()
