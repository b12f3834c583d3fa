"""Verdicts: one model, clean and under each attack."""

from dataclasses import dataclass

from igdefense.verdicts.verdict import Verdict


@dataclass(frozen=True, eq=False)
class Verdicts:
    """The clean verdict, and one for each attack by name."""

    clean: Verdict
    attacked: dict[str, Verdict]
