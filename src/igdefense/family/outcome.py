"""Outcome: all trials of a search, and the chosen setting on images it was not chosen on."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from igdefense.family.member import Member
from igdefense.family.trial import Trial, best_first
from igdefense.files import written_whole
from igdefense.verdicts.difference import Difference, differences_table
from igdefense.verdicts.statistics import percent
from igdefense.verdicts.table import aligned

FORMAT = "igdefense-search-1"
RESULTS = "results.json"


@dataclass(frozen=True)
class Outcome:
    """What a search found; `test` compares the chosen member with its base."""

    rounds: list[list[Trial]]
    chosen: Member
    test: list[Difference]
    settings: dict[str, Any]

    @property
    def verdict(self) -> Difference:
        """The row that decides: the worst case on the judging draw."""
        return next(row for row in self.test if row.what.startswith("IW-WC"))

    @property
    def sentence(self) -> str:
        """Whether a gain is shown, on the test images alone."""
        row, best = self.verdict, best_first(self.rounds[-1])[0].difference
        word = "No gain is shown"
        if row.shown:
            word = "A gain is shown" if row.value > 0 else "A loss is shown"
        parts = [
            f"{word}: {self.chosen.name} keeps {100 * row.left:.1f} % of {row.images} test images "
            f"in the worst case, its base {100 * row.right:.1f} %: {100 * row.value:+.1f} points "
            f"{percent(row.interval)}, McNemar p = {row.p:.2g}; so many images could have shown "
            f"about {100 * row.smallest:.1f}.",
            f"It was chosen among {len(self.rounds[0])} settings on {best.images} other images, "
            f"where it had {100 * best.value:+.1f} points; the best of many looks too good there.",
        ]
        if self._small("test"):
            parts.append("The attacks' budgets are reduced, so both may keep too much.")
        elif self._small("validation"):
            parts.append("The settings were compared under reduced budgets.")
        return " ".join(parts)

    def _small(self, stage: str) -> bool:
        told = self.settings[stage]
        return told["suite"].endswith("quick") or bool(told["budget"])

    def table(self) -> str:
        """The rounds on the validation split, the test, and the sentence."""
        lines = []
        for number, trials in enumerate(self.rounds):
            last = number + 1 == len(self.rounds)
            going = {self.chosen} if last else {t.member for t in self.rounds[number + 1]}
            lines += [f"Round {number + 1}, {trials[0].images} validation images:", ""]
            heads = ["", "clean %", "worst %", "base %", "difference [95 %]", ""]
            mark = "chosen" if last else "goes on"
            lines += aligned(
                [heads, *(_row(t, mark * (t.member in going)) for t in best_first(trials))]
            )
            lines.append("")
        lines += [f"{self.chosen.name} on the test images, chosen without them:", ""]
        lines += differences_table(self.test, "chosen", "base")
        return "\n".join([*lines, "", self.sentence])

    def to_json(self) -> dict[str, Any]:
        """Every number, with what it depends on."""
        return {
            "format": FORMAT,
            "settings": self.settings,
            "rounds": [[trial.to_json() for trial in trials] for trials in self.rounds],
            "chosen": {"name": self.chosen.name, "settings": self.chosen.to_json()},
            "test": [row.to_json() for row in self.test],
            "gain shown": self.verdict.shown and self.verdict.value > 0,
            "sentence": self.sentence,
        }

    def save(self, folder: Path) -> None:
        with written_whole(folder / RESULTS) as part:
            part.write_text(json.dumps(self.to_json(), indent=1) + "\n")


def _row(trial: Trial, mark: str) -> list[str]:
    row = trial.difference
    numbers = (trial.clean, row.left, row.right)
    shares = [f"{100 * value:.1f}" for value in numbers]
    return [trial.member.name, *shares, f"{100 * row.value:+.1f} {percent(row.interval)}", mark]
