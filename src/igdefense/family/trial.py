"""Trial: what became of one setting on the validation images, and which trials go on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from igdefense.errors import SettingError
from igdefense.family.member import Member
from igdefense.verdicts.difference import Difference


@dataclass(frozen=True)
class Trial:
    """A member on the first images of the validation split, beside its base on the same images."""

    member: Member
    clean: float
    difference: Difference
    """Worst case minus the base's, on the judging draw."""

    @property
    def images(self) -> int:
        return self.difference.images

    def to_json(self) -> dict[str, Any]:
        told = {"name": self.member.name, "settings": self.member.to_json(), "clean": self.clean}
        return told | self.difference.to_json()


def best_first(trials: Sequence[Trial]) -> list[Trial]:
    """By their difference to the base; of equals the simpler, then the earlier."""
    return sorted(trials, key=lambda trial: (-trial.difference.value, trial.member.complexity))


def rungs(images: int, first: int | None) -> list[int]:
    """How many validation images each round has: twice as many as the last, all in the end."""
    count = max(1, images // 4) if first is None else first
    if not 1 <= count <= images:
        raise SettingError(f"first = {count} is outside 1 to {images}, the validation images.")
    sizes = []
    while count < images:
        sizes.append(count)
        count *= 2
    return [*sizes, images]
