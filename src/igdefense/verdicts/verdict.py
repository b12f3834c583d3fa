"""Verdict: which images stay right under an attack."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from igdefense.verdicts.statistics import Share


@dataclass(frozen=True, eq=False)
class Verdict:
    """One outcome an image: right when clean and still right when attacked.

    `tested` tells which images the attack was run on; in a cascade those that had fallen before
    are left out, and count as not robust.
    """

    attack: str
    robust: Bool[Tensor, " images"]
    tested: Bool[Tensor, " images"]

    @classmethod
    def on_all(cls, attack: str, robust: Tensor) -> "Verdict":
        return cls(attack, robust, torch.ones_like(robust))

    def __and__(self, other: "Verdict") -> "Verdict":
        """The worst case of both."""
        name = f"{self.attack} & {other.attack}"
        return Verdict(name, self.robust & other.robust, self.tested | other.tested)

    @property
    def share(self) -> Share:
        """The robust accuracy."""
        return Share(int(self.robust.sum()), len(self.robust))

    @property
    def complete(self) -> bool:
        return bool(self.tested.all())

    def __repr__(self) -> str:
        return f"Verdict({self.attack}: {self.share} % of {len(self.robust)})"
