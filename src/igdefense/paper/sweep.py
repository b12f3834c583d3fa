"""Sweep: what becomes of accuracies as one setting is varied, read from an outcome."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from igdefense.paper.outcome import Outcome
from igdefense.verdicts.statistics import Share

AXES = {
    "keep": "neurons kept for each class (k)",
    "layer": "layer masked",
    "sigma": "standard deviation of the noise (sigma), /255",
    "samples": "noisy copies in the first pass (n_s)",
    "temperature": "temperature of the first pass (tau)",
    "per_class": "probe images of each class",
    "steps": "steps of the attack",
    "eps": "budget of the attack (eps), /255",
}

BASE = "base model"


@dataclass(frozen=True)
class Sweep:
    """The shares of each series at each value of a setting."""

    setting: str
    axis: str
    values: tuple[str, ...]
    series: Mapping[str, tuple[Share, ...]]

    @property
    def numbers(self) -> tuple[float, ...] | None:
        """The values where they are numbers, in units of the axis; None for names."""
        try:
            return tuple(float(value.removesuffix("/255")) for value in self.values)
        except ValueError:
            return None


def sweeps_of(outcome: Outcome) -> list[Sweep]:
    """One for each setting that the outcome varies; none for a table."""
    found = []
    for setting, axis in AXES.items():
        rows = [row for row in outcome.rows if setting in row]
        values = tuple(dict.fromkeys(str(row[setting]) for row in rows))
        series: dict[str, dict[str, Share]] = {}
        for row in rows:
            prefix = f"{row['defense']} " if "defense" in row else ""
            for name, cell in row.items():
                if isinstance(cell, Share):
                    title = re.sub("^none(?= |$)", BASE, f"{prefix}{name}")
                    series.setdefault(title, {})[str(row[setting])] = cell
        whole = {
            name: tuple(shares[value] for value in values)
            for name, shares in series.items()
            if set(shares) == set(values)
        }
        if len(values) > 1 and whole:
            found.append(Sweep(setting, axis, values, whole))
    return found
