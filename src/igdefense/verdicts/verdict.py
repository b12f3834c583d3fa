"""Verdict: which images stay right under an attack, draw by draw."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from igdefense.verdicts.accuracies import Accuracies
from igdefense.verdicts.statistics import Mean, Share


@dataclass(frozen=True, eq=False)
class Verdict:
    """What becomes of each image under one attack.

    Draw 0 is the judging draw, and an image is right there only if it is so when clean too; the
    others are fresh draws of a random defense, on the attacked images alone. `tested` tells which
    images the attack was run on; in a cascade those that had fallen before are left out, and count
    as wrong on every draw.
    """

    attack: str
    draws: Bool[Tensor, "images draws"]
    tested: Bool[Tensor, " images"]

    @classmethod
    def on_all(cls, attack: str, draws: Bool[Tensor, "images draws"]) -> "Verdict":
        return cls(attack, draws, torch.ones_like(draws[:, 0]))

    @property
    def robust(self) -> Bool[Tensor, " images"]:
        """Right on the judging draw."""
        return self.draws[:, 0]

    @property
    def fresh(self) -> Bool[Tensor, "images draws"]:
        """Right on each fresh draw; without columns if the defense is deterministic."""
        return self.draws[:, 1:]

    @property
    def accuracies(self) -> Accuracies:
        """Its four accuracies; the first half of the fresh draws only ever selects attacks."""
        if self.fresh.shape[1] == 0:
            return Accuracies.of_one_draw(self.robust)
        most = right_mostly(self.fresh[:, selecting(self.fresh.shape[1]) :])
        return Accuracies(self.robust, self.fresh, most, self.fresh.all(1))

    @property
    def share(self) -> Share:
        """The robust accuracy on the judging draw."""
        return self.accuracies.share

    @property
    def expected(self) -> Mean:
        """The mean over the fresh draws."""
        return self.accuracies.expected

    @property
    def majority(self) -> Share:
        """The majority of the second half of the fresh draws."""
        return self.accuracies.majority

    @property
    def any_of(self) -> Share:
        """Right on every fresh draw."""
        return self.accuracies.any_of

    @property
    def complete(self) -> bool:
        return bool(self.tested.all())

    def frame(self) -> Any:
        """A pandas table with a row for each image (extra `pandas`)."""
        from igdefense.verdicts.frame import verdict_frame  # noqa: PLC0415  (it reads verdicts)

        return verdict_frame(self)

    def __repr__(self) -> str:
        return f"Verdict({self.attack}: {self.share} % of {len(self.robust)})"


def selecting(fresh: int) -> int:
    """How many of the fresh draws select the worst attack; the others report."""
    return fresh // 2


def right_mostly(draws: Bool[Tensor, "images draws"]) -> Bool[Tensor, " images"]:
    """Right on more than half of the draws."""
    return draws.double().mean(1) > 0.5
