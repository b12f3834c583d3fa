"""Run: the verdicts of one evaluation, as a value that prints, saves and loads."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from igdefense.errors import OutputError
from igdefense.files import written_whole
from igdefense.verdicts.accuracies import Accuracies
from igdefense.verdicts.curve import Curve
from igdefense.verdicts.diagnostics import in_words
from igdefense.verdicts.difference import Difference, compare_accuracies, differences_table
from igdefense.verdicts.frame import run_frame
from igdefense.verdicts.record import accuracies_to_json, verdict_from_json, verdict_to_json
from igdefense.verdicts.table import aligned, cells, headline, heads
from igdefense.verdicts.verdict import Verdict
from igdefense.verdicts.verdicts import Verdicts
from igdefense.verdicts.worst_case import worst_case

RESULTS = "results.json"
FORMAT = "igdefense-run-2"
READABLE = ("igdefense-run-1", FORMAT)
CASCADE = (
    "In a cascade an image meets no more attacks once it is wrong on the judging draw and on every "
    "draw that selects its worst attack: expected and majority know only the attacks it met."
)
NO_BASE = (
    "Defended minus base: the base was not asked about images that had fallen. Use --mode full, or "
    "run --defense none too and `igd diff` the two."
)


@dataclass(frozen=True, eq=False)
class Run:
    """Clean verdict, one verdict for each attack, and everything they depend on.

    `base` holds the base model's verdicts on the attacks made on it, where it was shown them all.
    """

    clean: Verdict
    verdicts: dict[str, Verdict]
    settings: dict[str, Any]
    seconds: dict[str, float] = field(default_factory=dict)
    footnotes: list[str] = field(default_factory=list)
    checks: dict[str, Any] = field(default_factory=dict)
    base: Verdicts | None = None
    curves: list[Curve] = field(default_factory=list)

    def __post_init__(self) -> None:
        worst = self.worst_case
        for verdict in self.verdicts.values():
            assert not (worst.robust & ~verdict.robust).any(), "IW-WC above a column"
            assert not (verdict.robust & ~self.clean.robust).any(), "a column above clean"
            every = verdict.accuracies.every | ~verdict.tested
            assert not (worst.every & ~every).any(), "any-of above a column"

    @property
    def worst_case(self) -> Accuracies:
        """IW-WC: robust only if right when clean and under every attack."""
        return worst_case(self.clean, list(self.verdicts.values()))

    @property
    def base_clean(self) -> Verdict | None:
        """What the base model gets right without any attack."""
        return self.base.clean if self.base else None

    @property
    def base_worst_case(self) -> Accuracies | None:
        """IW-WC of the base model, over the attacks made on it."""
        return worst_case(self.base.clean, list(self.base.attacked.values())) if self.base else None

    @property
    def against_base(self) -> list[Difference]:
        """Defended minus base on the same images, each under the attacks made for it."""
        if self.base is None or self.base_worst_case is None:
            return []
        seed = int(self.settings["seed"])
        return [
            *compare_accuracies("clean", self.clean.accuracies, self.base.clean.accuracies, seed),
            *compare_accuracies("IW-WC", self.worst_case, self.base_worst_case, seed),
        ]

    def table(self) -> str:
        """Clean, each attack, IW-WC: accuracy in % with its 95 % Wilson interval; then what they
        come to, how they compare with the base model, and what weakens them."""
        s = self.settings
        parts = [
            f"{s['defense name']}: suite {s['suite']}{' (small budgets)' * ('quick' in s['suite'])}"
            f", {s['mode']}, n = {len(self.clean.robust)}, L-inf {s['eps'] * 255:g}/255, "
            f"seed {s['seed']}",
            *aligned(self._rows()),
            "",
            headline(self.clean, self.verdicts, self.worst_case, self._expert()),
        ]
        ways = {way for way in s.get("gradients", {}).values() if way in ("around", "through")}
        parts[0] += "".join(f", gradients {way} the inner loop" for way in sorted(ways))
        cascade = s["mode"] == "cascade"
        if self.against_base:
            parts += ["", "Defended minus base on the same images, in percentage points:"]
            parts += differences_table(self.against_base, "defended", "base")
        for curve in self.curves:
            parts += ["", *curve.table()]
        notes = [*self.footnotes, *self._levels_off()]
        notes += in_words(self.checks.get("diagnostics"))
        notes += [CASCADE] * (cascade and self.worst_case.random)
        notes += [NO_BASE] * (cascade and s.get("base") not in (None, s.get("defense")))
        return "\n".join(parts + [""] * bool(notes) + [f"* {note}" for note in notes])

    def frame(self) -> Any:
        """The table as a pandas one, with a row for clean, each attack and IW-WC."""
        return run_frame(self.clean, self.verdicts, self.worst_case, self.seconds)

    def _rows(self) -> list[list[str]]:
        worst, draws = self.worst_case, self.clean.fresh.shape[1]
        names = heads(worst, draws)
        rows = [["", *names, "broken of attacked"], ["clean", *cells(self.clean.accuracies), ""]]
        for name, verdict in self.verdicts.items():
            survivors = ["(survivors only)", *[""] * (len(names) - 1)]
            shown = cells(verdict.accuracies) if verdict.complete else survivors
            fell, attacked = self._broken(verdict)
            rows.append([name, *shown, f"{fell} of {attacked}"])
        return [*rows, ["IW-WC", *cells(worst), ""]]

    def _levels_off(self) -> list[str]:
        """A flat curve is no sign of strength if another attack went further."""
        if not self.curves:
            return []
        lowest = min(curve.lowest for curve in self.curves)
        same = self.worst_case.rates[: len(self.curves[0].verdicts[0].robust)]
        worst = float(same.mean())
        if lowest <= worst:
            return []
        return [
            f"The curves end at {100 * lowest:.1f} %, above the worst case of {100 * worst:.1f} % "
            "on the same images: more of this attack does not find what another found."
        ]

    def _expert(self) -> list[str]:
        columns = self.settings.get("columns", {})
        return [n for n in self.verdicts if columns.get(n, {}).get("group", "paper") != "paper"]

    def _broken(self, verdict: Verdict) -> tuple[int, int]:
        attacked = verdict.tested & self.clean.robust
        return int((attacked & ~verdict.robust).sum()), int(attacked.sum())

    def to_json(self) -> dict[str, Any]:
        """Every number, with what it depends on."""
        columns = {}
        for name, verdict in self.verdicts.items():
            fell, attacked = self._broken(verdict)
            seconds = round(self.seconds.get(name, 0.0), 2)
            counts = {"attacked": attacked, "broken": fell, "seconds": seconds}
            columns[name] = counts | verdict_to_json(verdict)
        worst = self.worst_case
        record = {
            "format": FORMAT,
            "settings": self.settings,
            "n": len(self.clean.robust),
            "headline": headline(self.clean, self.verdicts, worst, self._expert()),
            "clean": verdict_to_json(self.clean),
            "columns": columns,
            "worst case": accuracies_to_json(worst) | {"robust": worst.robust.int().tolist()},
            "footnotes": self.footnotes,
            "checks": self.checks,
            "curves": [curve.to_json() for curve in self.curves],
        }
        if self.base is not None:
            record["base"] = {
                "clean": verdict_to_json(self.base.clean),
                "columns": {n: verdict_to_json(v) for n, v in self.base.attacked.items()},
            }
            record["defended minus base"] = [row.to_json() for row in self.against_base]
        return record

    def save(self, folder: Path) -> None:
        with written_whole(folder / RESULTS) as part:
            part.write_text(json.dumps(self.to_json(), indent=1) + "\n")

    @classmethod
    def load(cls, folder: str | Path) -> "Run":
        """Read a finished run's `results.json`."""
        path = Path(folder) / RESULTS
        try:
            record = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise OutputError(f"{folder} does not hold a finished run ({error}).") from error
        if not isinstance(record, dict) or record.get("format") not in READABLE:
            raise OutputError(f"{path} is not the result of a run of this project.")
        verdicts, base = _verdicts(record), record.get("base")
        return cls(
            verdicts.clean,
            verdicts.attacked,
            record["settings"],
            {name: column["seconds"] for name, column in record["columns"].items()},
            record["footnotes"],
            record["checks"],
            _verdicts(base) if base else None,
            [Curve.from_json(curve) for curve in record.get("curves", [])],
        )


def _verdicts(record: dict[str, Any]) -> Verdicts:
    columns = record["columns"].items()
    attacked = {name: verdict_from_json(name, column) for name, column in columns}
    return Verdicts(verdict_from_json("clean", record["clean"]), attacked)
