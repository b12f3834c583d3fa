"""Results as pandas tables, for those who go on from there."""

from typing import Any

from igdefense.extras import needed
from igdefense.verdicts.accuracies import Accuracies
from igdefense.verdicts.verdict import Verdict


def verdict_frame(verdict: Verdict) -> Any:
    """A row for each image: right on the judging draw, attacked at all, share of fresh draws."""
    pandas = needed("pandas", "pandas", "A table in pandas")
    rates = verdict.accuracies.rates.tolist()
    return pandas.DataFrame(
        {
            "robust": verdict.robust.tolist(),
            "tested": verdict.tested.tolist(),
            "rate": rates,
        },
        index=pandas.RangeIndex(len(rates), name="image"),
    )


def run_frame(
    clean: Verdict, verdicts: dict[str, Verdict], worst: Accuracies, seconds: dict[str, float]
) -> Any:
    """A row for clean, each attack and IW-WC: shares of 1 with their 95 % intervals.

    An attack that met survivors only has counts, but no accuracy.
    """
    pandas = needed("pandas", "pandas", "A table in pandas")
    rows: list[dict[str, Any]] = [{"attack": "clean", **_numbers(clean.accuracies)}]
    for name, verdict in verdicts.items():
        attacked = verdict.tested & clean.robust
        rows.append(
            {
                "attack": name,
                **(_numbers(verdict.accuracies) if verdict.complete else {}),
                "broken": int((attacked & ~verdict.robust).sum()),
                "attacked": int(attacked.sum()),
                "seconds": seconds.get(name),
            }
        )
    rows.append({"attack": "IW-WC", **_numbers(worst)})
    table = pandas.DataFrame(rows).set_index("attack")
    counts = {name: "Int64" for name in ("right", "n", "broken", "attacked") if name in table}
    return table.astype(counts)


def _numbers(accuracies: Accuracies) -> dict[str, Any]:
    share = accuracies.share
    low, high = share.interval
    row = {
        "right": share.count,
        "n": share.total,
        "accuracy": share.value,
        "low": low,
        "high": high,
    }
    if accuracies.random:
        row |= {
            "expected": accuracies.expected.value,
            "std": accuracies.expected.std,
            "majority": accuracies.majority.value,
            "any of": accuracies.any_of.value,
        }
    return row
