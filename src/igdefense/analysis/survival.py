"""Survival: how many images still stand as each attack of a run joins."""

from dataclasses import dataclass
from itertools import pairwise

from igdefense.verdicts.run import Run
from igdefense.verdicts.statistics import Share


@dataclass(frozen=True)
class Survival:
    """The accuracy after each attack, in the order of the run; the last is IW-WC."""

    attacks: tuple[str, ...]  # the first is "clean"
    standing: tuple[Share, ...]

    @classmethod
    def of(cls, run: Run) -> "Survival":
        """Let the attacks of a run join one by one."""
        standing = run.clean.robust.clone()
        names, shares = ["clean"], [Share(int(standing.sum()), len(standing))]
        for name, verdict in run.verdicts.items():
            standing &= verdict.robust
            names.append(name)
            shares.append(Share(int(standing.sum()), len(standing)))
        return cls(tuple(names), tuple(shares))

    @property
    def newly_broken(self) -> tuple[int, ...]:
        """How many images each attack broke that all before it had left standing; 0 for clean."""
        counts = [share.count for share in self.standing]
        return (0, *(a - b for a, b in pairwise(counts)))

    def table(self) -> str:
        """One line for each attack that joins."""
        width = max(map(len, self.attacks))
        lines = [f"{'':<{width}}  standing % [95 %]     newly broken"]
        for name, share, broken in zip(self.attacks, self.standing, self.newly_broken, strict=True):
            lines.append(f"{name:<{width}}  {share!s:<20}  {broken}")
        return "\n".join(lines)
