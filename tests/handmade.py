"""Runs written by hand, so that every number about them is known."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from igdefense.verdicts.run import Run
from igdefense.verdicts.verdict import Verdict

SETTINGS: dict[str, Any] = {
    **{"defense name": "by hand", "defense": "d", "base": None, "data": "x", "n": 4},
    **{"suite": "paper", "eps": 8 / 255, "mode": "full", "seed": 0, "columns": {}, "recipe": None},
}


def outcomes(text: str) -> Tensor:
    """`1101`: right, right, wrong, right, on one draw."""
    return torch.tensor([[letter == "1"] for letter in text])


def handmade(
    clean: str, attacks: Mapping[str, str], footnotes: Sequence[str] = (), **settings: Any
) -> Run:
    """A run from the outcomes of its images."""
    verdicts = {
        name: Verdict.on_all(name, outcomes(row) & outcomes(clean)) for name, row in attacks.items()
    }
    told = SETTINGS | {"n": len(clean)} | {key.replace("_", " "): v for key, v in settings.items()}
    return Run(Verdict.on_all("clean", outcomes(clean)), verdicts, told, {}, list(footnotes))
