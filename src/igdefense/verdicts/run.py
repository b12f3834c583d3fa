"""Run: the verdicts of one evaluation, as a value that prints, saves and loads."""

import json
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import torch

from igdefense.errors import OutputError
from igdefense.files import written_whole
from igdefense.verdicts.statistics import Share
from igdefense.verdicts.verdict import Verdict

RESULTS = "results.json"
FORMAT = "igdefense-run-1"


@dataclass(frozen=True, eq=False)
class Run:
    """Clean verdict, one verdict for each attack, and everything they depend on."""

    clean: Verdict
    verdicts: dict[str, Verdict]
    settings: dict[str, Any]
    seconds: dict[str, float] = field(default_factory=dict)
    footnotes: list[str] = field(default_factory=list)
    checks: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        worst = self.worst_case.robust
        for verdict in self.verdicts.values():
            assert not (worst & ~verdict.robust).any(), "IW-WC above a column"
            assert not (verdict.robust & ~self.clean.robust).any(), "a column above clean"

    @property
    def worst_case(self) -> Verdict:
        """IW-WC: robust only if right when clean and under every attack."""
        worst = reduce(and_, self.verdicts.values(), self.clean)
        return Verdict("IW-WC", worst.robust, self.clean.tested)

    def table(self) -> str:
        """Clean, each attack, IW-WC: accuracy in % with its 95 % Wilson interval."""
        s = self.settings
        lines = [
            f"{s['defense name']}: suite {s['suite']}{' (small budgets)' * (s['suite'] == 'quick')}"
            f", {s['mode']}, n = {len(self.clean.robust)}, L-inf {s['eps'] * 255:g}/255, "
            f"seed {s['seed']}"
        ]
        ways = {way for way in s.get("gradients", {}).values() if way in ("around", "through")}
        lines[0] += "".join(f", gradients {way} the inner loop" for way in sorted(ways))
        width = max(map(len, ["clean", "IW-WC", *self.verdicts]))
        lines.append(f"{'':<{width}}  accuracy % [95 %]      broken of attacked")
        rows = [("clean", self.clean), *self.verdicts.items(), ("IW-WC", self.worst_case)]
        for name, verdict in rows:
            lines.append(f"{name:<{width}}  {self._cell(name, verdict)}")
        lines += [f"* {note}" for note in self.footnotes]
        return "\n".join(lines)

    def _cell(self, name: str, verdict: Verdict) -> str:
        if name in ("clean", "IW-WC"):
            return str(verdict.share)
        fell, tested = self._broken(verdict)
        accuracy = str(verdict.share) if verdict.complete else "(survivors only)"
        return f"{accuracy:<21}  {fell} of {tested}"

    def _broken(self, verdict: Verdict) -> tuple[int, int]:
        attacked = verdict.tested & self.clean.robust
        return int((attacked & ~verdict.robust).sum()), int(attacked.sum())

    def to_json(self) -> dict[str, Any]:
        """Every number, with what it depends on."""
        columns = {}
        for name, verdict in self.verdicts.items():
            fell, tested = self._broken(verdict)
            columns[name] = {
                "attacked": tested,
                "broken": fell,
                "seconds": round(self.seconds.get(name, 0.0), 2),
                "robust": verdict.robust.int().tolist(),
                "tested": verdict.tested.int().tolist(),
            }
            if verdict.complete:
                columns[name] |= _share(verdict.share)
        return {
            "format": FORMAT,
            "settings": self.settings,
            "n": len(self.clean.robust),
            "clean": _share(self.clean.share) | {"robust": self.clean.robust.int().tolist()},
            "columns": columns,
            "worst case": _share(self.worst_case.share)
            | {"robust": self.worst_case.robust.int().tolist()},
            "footnotes": self.footnotes,
            "checks": self.checks,
        }

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
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise OutputError(f"{path} is not the result of a run of this project.")
        verdicts = {
            name: Verdict(name, _bools(column["robust"]), _bools(column["tested"]))
            for name, column in record["columns"].items()
        }
        return cls(
            Verdict.on_all("clean", _bools(record["clean"]["robust"])),
            verdicts,
            record["settings"],
            {name: column["seconds"] for name, column in record["columns"].items()},
            record["footnotes"],
            record["checks"],
        )


def _share(share: Share) -> dict[str, Any]:
    return {"right": share.count, "accuracy": share.value, "interval 95 %": list(share.interval)}


def _bools(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.bool)
