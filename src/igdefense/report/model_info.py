"""ModelInfo: results in the JSON form of RobustBench's `model_info` folder, both ways."""

import json
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

from igdefense.errors import DataError
from igdefense.files import written_whole
from igdefense.verdicts.run import Run

AUTOATTACK = "autoattack"
CORRUPTIONS = ("corruptions_acc", "corruptions_acc_3d")
ACCURACIES = ("clean_acc", "reported", "autoattack_acc", "external", *CORRUPTIONS)


@dataclass(frozen=True)
class ModelInfo:
    """RobustBench's fields; accuracies are in %, `external` is a worst case beyond AutoAttack."""

    link: str | None = None
    name: str | None = None
    authors: str | None = None
    additional_data: bool | None = None
    number_forward_passes: int | None = None
    dataset: str | None = None
    venue: str | None = None
    architecture: str | None = None
    eps: float | None = None
    clean_acc: float | None = None
    reported: float | None = None
    corruptions_acc: float | None = None
    corruptions_acc_3d: float | None = None
    corruptions_mce: str | None = None  # mean corruption errors, handed on as they are
    corruptions_mce_3d: str | None = None
    autoattack_acc: float | None = None
    external: float | None = None
    footnote: str | None = None
    unreliable: bool | None = None

    @classmethod
    def of(cls, run: Run, **about: Any) -> "ModelInfo":
        """A run's clean accuracy, AutoAttack and worst case, each on the judging draw.

        `about` fills what a run does not know: link, authors, venue, dataset, architecture.
        AutoAttack stays empty where it met the survivors of other attacks only.
        """
        settings, worst = run.settings, 100 * run.worst_case.share.value
        attacked = run.verdicts.get(AUTOATTACK)
        whole = attacked is not None and attacked.complete
        alone = 100 * attacked.share.value if attacked is not None and whole else None
        known = {
            "name": settings["defense name"],
            "eps": settings["eps"],
            "clean_acc": 100 * run.clean.share.value,
            "autoattack_acc": alone,
            "external": worst,
            "footnote": _footnote(run),
            "unreliable": None if alone is None else round(worst, 2) < round(alone, 2),
        }
        return cls(**(known | {name: value for name, value in about.items() if value is not None}))

    @property
    def published(self) -> dict[str, float]:
        """The accuracies under the names of our tables; the worst case is the lowest it has."""
        robust = [a for a in (self.autoattack_acc, self.external) if a is not None]
        rows = {"clean": self.clean_acc, AUTOATTACK: self.autoattack_acc}
        rows["IW-WC"] = min(robust) if robust else None
        return {name: value for name, value in rows.items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        """As the folder has it: accuracies as text with two digits, empty fields left out."""
        record = {name: value for name, value in asdict(self).items() if value is not None}
        record |= {n: f"{record[n]:.2f}" for n in ACCURACIES if n in record}
        if self.eps is not None:
            record["eps"] = _fraction(self.eps)
        return record

    def save(self, path: str | Path) -> None:
        with written_whole(Path(path)) as part:
            part.write_text(json.dumps(self.to_json(), indent=2) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> "ModelInfo":
        """Read such a file, also as RobustBench's own `benchmark` writes it; other fields pass."""
        try:
            record = json.loads(Path(path).read_text())
        except ValueError as error:
            raise DataError(f"{path} is not JSON ({error}).") from error
        if not isinstance(record, dict) or "clean_acc" not in record:
            raise DataError(f"{path} has no 'clean_acc': it is no model_info file of RobustBench.")
        return cls.from_json(record, str(path))

    @classmethod
    def from_json(cls, record: dict[str, Any], where: str = "The record") -> "ModelInfo":
        known = {field.name: record.get(field.name) for field in fields(cls)}
        for name in ACCURACIES:
            known[name] = _accuracy(known[name], name, where)
        known["eps"] = _eps(known["eps"], where)
        return cls(**known)


def _footnote(run: Run) -> str:
    s = run.settings
    parts = [f"igdefense: worst case over {len(run.verdicts)} attacks (suite {s['suite']})"]
    parts += [f"{len(run.clean.robust)} images, seed {s['seed']}"]
    if run.worst_case.random:
        parts += ["a random defense, accuracies on one fresh draw"]
    return ", ".join(parts)


def _accuracy(value: object, name: str, where: str) -> float | None:
    """Text is in %; a bare number up to 1, as `benchmark` writes it, is a share."""
    if value is None or value == "":
        return None
    try:
        number = float(value.rstrip("% ") if isinstance(value, str) else value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = -1.0
    number *= 100 if not isinstance(value, str) and number <= 1 else 1
    if not 0 <= number <= 100:
        raise DataError(f"{where}: {name} is {value!r}; expected an accuracy from 0 to 100.")
    return number


def _eps(value: object, where: str) -> float | None:
    if value is None or value == "":
        return None
    try:
        return float(Fraction(str(value)))
    except (ValueError, ZeroDivisionError) as error:
        raise DataError(f"{where}: eps is {value!r}; expected a number like 8/255.") from error


def _fraction(eps: float) -> str:
    """`8/255` where it is one, as the leaderboard writes it."""
    levels = round(eps * 255)
    return f"{levels}/255" if levels and abs(eps * 255 - levels) < 1e-6 else f"{eps:g}"
