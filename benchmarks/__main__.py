"""Run the benchmarks, print a table and, with --json, write the numbers.

The exit code says nothing about the bars: machines are noisy, so read the table.
"""

import argparse
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.defended import defended
from benchmarks.evaluation import autoattack, evaluation
from benchmarks.exported import exported
from benchmarks.hidden import hidden
from benchmarks.memory import memory
from benchmarks.penultimate import penultimate
from benchmarks.row import Row
from benchmarks.scale import scale
from benchmarks.soft_wpmi import soft_wpmi, soft_wpmi_memory
from benchmarks.spread import spread
from igdefense import __version__

BENCHMARKS: dict[str, Callable[[], list[Row]]] = {
    "penultimate": penultimate,
    "hidden": hidden,
    "defended": defended,
    "exported": exported,
    "memory": memory,
    "soft-wpmi": soft_wpmi,
    "soft-wpmi-memory": soft_wpmi_memory,
    "evaluation": evaluation,
    "autoattack": autoattack,
    "spread": spread,
    "scale": scale,
}


def table(rows: list[Row]) -> Table:
    """What, against, ratio [spread], bar, and whether it holds."""
    out = Table("what", "against", "ratio", r"\[min, max]", "bar", "", caption=_conditions())
    for row in rows:
        spread = rf"\[{row.spread[0]:.3g}, {row.spread[1]:.3g}]"
        bar = "" if row.bar is None else str(row.bar)
        out.add_row(row.what, row.against, f"{row.ratio:.3g}", spread, bar, row.verdict)
    return out


def summary(rows: list[Row]) -> str:
    """One sentence: how many bars hold, and which do not."""
    barred = [row for row in rows if row.bar is not None]
    missed = [row for row in barred if not row.holds]
    text = f"{len(barred) - len(missed)} of {len(barred)} bars hold."
    return text + "".join(f"\nMISSED: {row.what}: {row.ratio:.3g}, bar {row.bar}" for row in missed)


def record(rows: list[Row]) -> dict[str, Any]:
    """The numbers with the conditions they were measured under."""
    return {
        "igdefense": __version__,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": [
            {
                "what": row.what,
                "against": row.against,
                "ratio": row.ratio,
                "spread": row.spread,
                "bar": None if row.bar is None else str(row.bar),
                "holds": row.holds,
            }
            for row in rows
        ],
    }


def _conditions() -> str:
    threads = torch.get_num_threads()
    return f"medians over rounds; torch {torch.__version__}, {threads} threads"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there too")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    console, rows = Console(), list[Row]()
    for name in chosen.names or BENCHMARKS:
        console.print(f"{name} ...")
        rows += BENCHMARKS[name]()
    console.print(table(rows))
    console.print(summary(rows), highlight=False)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(record(rows), indent=2) + "\n")


if __name__ == "__main__":
    main()
