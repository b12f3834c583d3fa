"""How a command is run and how it ends."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: object
    out: str
    err: str


Igd = Callable[..., Ended]
Refused = Callable[..., str]
