"""Plain text tables, and the sentences that go with them."""

from collections.abc import Sequence

from igdefense.verdicts.accuracies import Accuracies
from igdefense.verdicts.verdict import Verdict


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line a row; every column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def heads(accuracies: Accuracies, draws: int) -> list[str]:
    """What `cells` shows."""
    if not accuracies.random:
        return ["accuracy % [95 %]"]
    return ["1 draw % [95 %]", "expected ± std [95 %]", "majority [95 %]", f"any of {draws} [95 %]"]


def cells(accuracies: Accuracies) -> list[str]:
    """Its accuracies in %, each with its interval."""
    if not accuracies.random:
        return [str(accuracies.share)]
    a = accuracies
    return [str(a.share), str(a.expected), str(a.majority), str(a.any_of)]


def headline(
    clean: Verdict, verdicts: dict[str, Verdict], worst: Accuracies, expert: Sequence[str]
) -> str:
    """The worst case over everything that was run, and what broke those that survived the paper."""
    sentence = f"Worst case over {len(verdicts)} attacks: {worst.share} %"
    if worst.random:
        draws = clean.fresh.shape[1]
        sentence += (
            f" on one draw; expected {worst.expected} %; if one wrong draw of {draws} is enough "
            f"{worst.any_of} % (clean {clean.any_of} %)"
        )
    return sentence + "." + _breaker(clean, verdicts, expert)


def _breaker(clean: Verdict, verdicts: dict[str, Verdict], expert: Sequence[str]) -> str:
    if not expert:
        return ""
    paper = [verdict for name, verdict in verdicts.items() if name not in expert]
    standing = clean.robust.clone()
    for verdict in paper:
        standing &= verdict.robust | ~verdict.tested
    fell = {
        name: int((standing & verdicts[name].tested & ~verdicts[name].robust).sum())
        for name in expert
    }
    name = max(fell, key=lambda name: fell[name])
    survivors = f"{int(standing.sum())} survivors of the {len(paper)} attacks of the paper"
    if fell[name] == 0:
        return f" None of the {survivors} fell to the {len(expert)} others."
    alone = "" if verdicts[name].complete else ", of those it met in the cascade"
    return f" {name} broke most of the {survivors}: {fell[name]}{alone}."
