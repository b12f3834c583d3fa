"""Accuracies: what one draw, the mean draw, most draws and all draws say of the same images."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from igdefense.verdicts.statistics import Mean, Share


@dataclass(frozen=True, eq=False)
class Accuracies:
    """The outcomes of each image behind a row of the table.

    A deterministic defense has one draw, and all four numbers are the same.
    """

    robust: Bool[Tensor, " images"]
    """Right on the judging draw: the paper's protocol, and what IW-WC and cascades go by."""
    fresh: Bool[Tensor, "images draws"]
    """Right on each of the fresh draws that are averaged."""
    most: Bool[Tensor, " images"]
    """Right on more than half of the draws kept for reporting."""
    every: Bool[Tensor, " images"]
    """Right on all fresh draws: not even an adversary who tries again breaks it."""
    random: bool = True

    @classmethod
    def of_one_draw(cls, robust: Bool[Tensor, " images"]) -> "Accuracies":
        return cls(robust, robust.unsqueeze(1), robust, robust, random=False)

    @property
    def rates(self) -> Float[Tensor, " images"]:
        """How often each image is right on the fresh draws."""
        return self.fresh.double().mean(1)

    @property
    def share(self) -> Share:
        """The accuracy on the judging draw."""
        return _share(self.robust)

    @property
    def expected(self) -> Mean:
        """The accuracy of the mean draw, and how much it varies from draw to draw."""
        over_draws = self.fresh.double().mean(0)
        std = float(over_draws.std()) if len(over_draws) > 1 else 0.0
        return Mean(float(over_draws.mean()), std, len(self.fresh))

    @property
    def majority(self) -> Share:
        """The accuracy of the majority of draws."""
        return _share(self.most)

    @property
    def any_of(self) -> Share:
        """The accuracy against an adversary for whom one wrong draw is enough."""
        return _share(self.every)


def _share(right: Bool[Tensor, " images"]) -> Share:
    return Share(int(right.sum()), len(right))
