"""The table of results: a row for each attack, a column for each run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from igdefense.report.exhibit import Exhibit
from igdefense.report.figure import Row, as_csv
from igdefense.verdicts.accuracies import Accuracies
from igdefense.verdicts.statistics import Share

CLEAN, WORST = "clean", "IW-WC"


@dataclass(frozen=True)
class Cell:
    """One accuracy; `share` is None where an attack saw survivors only."""

    share: Share | None
    broken: tuple[int, int] | None = None  # so many of the images that were right when clean
    published: float | None = None  # %
    draws: tuple[str, ...] = ()  # what fresh draws of a random defense say

    @property
    def value(self) -> str:
        return "-" if self.share is None else f"{100 * self.share.value:.1f}"

    @property
    def interval(self) -> str:
        if self.share is None:
            return "survivors only"
        low, high = self.share.interval
        return f"[{100 * low:.1f}, {100 * high:.1f}]"


@dataclass(frozen=True)
class ResultTable:
    """Accuracies in % with 95 % Wilson intervals."""

    runs: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]  # None: the run has no such attack

    @classmethod
    def of(
        cls,
        exhibits: Sequence[Exhibit],
        published: Mapping[str, Mapping[str, float]] | None = None,
    ) -> "ResultTable":
        attacks = list(dict.fromkeys(name for e in exhibits for name, _ in e.verdicts))
        rows = []
        for name in (CLEAN, *attacks, WORST):
            cells = tuple(_cell(e, name, (published or {}).get(e.name, {})) for e in exhibits)
            rows.append((name, cells))
        return cls(tuple(e.name for e in exhibits), tuple(rows))

    def csv(self) -> str:
        """One line for each run and attack, with counts."""
        head = (
            "run",
            "attack",
            "right",
            "n",
            "accuracy %",
            "low %",
            "high %",
            "broken",
            "attacked",
            "published %",
        )
        lines: list[Row] = []
        for attack, cells in self.rows:
            for run, cell in zip(self.runs, cells, strict=True):
                if cell is None:
                    continue
                share, broken = cell.share, cell.broken or ("", "")
                numbers: Row = ("", "", "", "", "")
                if share is not None:
                    low, high = (100 * bound for bound in share.interval)
                    numbers = (share.count, share.total, 100 * share.value, low, high)
                theirs = "" if cell.published is None else cell.published
                lines.append((run, attack, *numbers, *broken, theirs))
        return as_csv(head, lines)

    def markdown(self) -> str:
        """A table for a README."""
        lines = [_line(["", *map(_in_markdown, self.runs)]), "|---" * (len(self.runs) + 1) + "|"]
        for attack, cells in self.rows:
            lines.append(_line([_in_markdown(attack), *map(_plain, cells)]))
        return "\n".join(lines) + "\n"

    def latex(self) -> str:
        """A table for a paper; needs booktabs."""
        lines = [
            r"\begin{tabular}{l" + "c" * len(self.runs) + "}",
            r"\toprule",
            " & ".join(["", *map(_in_latex, self.runs)]) + r" \\",
            r"\midrule",
        ]
        for attack, cells in self.rows:
            if attack == WORST:
                lines.append(r"\midrule")
            numbers = [_plain(cell).replace("[", r"{\small [").replace("]", "]}") for cell in cells]
            lines.append(" & ".join([_in_latex(attack), *numbers]) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _cell(exhibit: Exhibit, name: str, published: Mapping[str, float]) -> Cell | None:
    run, known = exhibit.run, published.get(name)
    if name in (CLEAN, WORST):
        accuracies = run.clean.accuracies if name == CLEAN else run.worst_case
        return Cell(accuracies.share, None, known, _draws(accuracies, run.clean.fresh.shape[1]))
    if name not in run.verdicts:
        return None
    verdict = run.verdicts[name]
    attacked = verdict.tested & run.clean.robust
    broken = (int((attacked & ~verdict.robust).sum()), int(attacked.sum()))
    if not verdict.complete:
        return Cell(None, broken, known)
    return Cell(verdict.share, broken, known, _draws(verdict.accuracies, verdict.fresh.shape[1]))


def _draws(accuracies: Accuracies, count: int) -> tuple[str, ...]:
    """The mean draw, and what is left if one wrong draw is enough."""
    if not accuracies.random:
        return ()
    mean = accuracies.expected
    return (
        f"expected {100 * mean.value:.1f} ± {100 * mean.std:.1f}",
        f"any of {count}: {100 * accuracies.any_of.value:.1f}",
    )


def _plain(cell: Cell | None) -> str:
    if cell is None:
        return ""
    text = cell.value if cell.share is None else f"{cell.value} {cell.interval}"
    return text if cell.published is None else f"{text} (published {cell.published:.2f})"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _in_markdown(text: str) -> str:
    for special in "\\`*_[]<>|":
        text = text.replace(special, f"\\{special}")
    return text


LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
LATEX |= {special: f"\\{special}" for special in "&%$#_{}"}


def _in_latex(text: str) -> str:
    return "".join(LATEX.get(character, character) for character in text)
