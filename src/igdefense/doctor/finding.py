"""Finding: one thing that was looked at."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "absent", "broken"]


@dataclass(frozen=True)
class Finding:
    """`absent` is a choice, `broken` is not; `core` tells whether anything works without it."""

    topic: str
    state: State
    says: str
    todo: str = ""
    core: bool = False

    def __str__(self) -> str:
        text = f"{self.state:<7} {self.topic}: {self.says}"
        return f"{text}\n        -> {self.todo}" if self.todo else text
