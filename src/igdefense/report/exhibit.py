"""Exhibit: a finished run and what it was made from, as far as that could be built again."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from igdefense.data.data import Data
from igdefense.defenses.ig_defense import IGDefense
from igdefense.errors import DataError, OutputError, SettingError
from igdefense.verdicts.diagnostics import in_words
from igdefense.verdicts.difference import differences_table
from igdefense.verdicts.run import Run
from igdefense.verdicts.verdict import Verdict

IMAGES = "adversarial"


@dataclass(frozen=True, eq=False)
class Exhibit:
    """What a page shows of one run; without data or models, only what the run itself tells."""

    name: str
    run: Run
    folder: Path | None = None
    data: Data | None = None
    defense: nn.Module | None = None
    base: nn.Module | None = None

    @property
    def guided(self) -> IGDefense | None:
        """The defense, if it masks neurons by a ranking."""
        return self.defense if isinstance(self.defense, IGDefense) else None

    @property
    def kind(self) -> str | None:
        """The `--defense` it is; None where the run does not tell."""
        recipe = self.run.settings.get("recipe") or {}
        found = recipe.get("defense")
        return None if found is None else str(found)

    @property
    def undefended(self) -> bool:
        """Whether what was judged is the base model itself."""
        return self.base is not None and self.defense is self.base

    @property
    def eps(self) -> float:
        return float(self.run.settings["eps"])

    @property
    def verdicts(self) -> list[tuple[str, Verdict]]:
        return list(self.run.verdicts.items())

    @property
    def summary(self) -> list[str]:
        """The run in a sentence, and its differences from the base model on the same images."""
        lines = [str(self.run.to_json()["headline"])]
        if self.run.against_base:
            lines += differences_table(self.run.against_base, "defended", "base")
        return lines

    @property
    def notes(self) -> list[str]:
        """What weakens its numbers."""
        return [*self.run.footnotes, *in_words(self.run.checks.get("diagnostics"))]

    def column(self, name: str) -> dict[str, Any]:
        """What an attack saw, and which unit of the store its images are."""
        columns: dict[str, dict[str, Any]] = self.run.settings.get("columns", {})
        return columns.get(name, {})

    def saved(self, attack: str) -> tuple[Tensor, Tensor] | None:
        """Positions and adversarial images of an attack; None where the run kept none."""
        if self.folder is None:
            return None
        path = self.folder / IMAGES / f"{attack}.safetensors"
        if not path.is_file():
            return None
        try:
            tensors = load_file(path)
            return tensors["positions"], tensors["x"]
        except (OSError, SafetensorError, KeyError) as error:
            raise OutputError(f"{path} is damaged ({error}); run the evaluation again.") from error

    def analysed(self) -> str | None:
        """The attack whose images the analysis looks at: made on the base, on the most images."""
        kept = [(name, v) for name, v in self.verdicts if self.saved_some(name)]
        on_base = [(name, v) for name, v in kept if self.column(name).get("sees") == "base"]
        best = max(on_base or kept, key=lambda item: int(item[1].tested.sum()), default=None)
        return best[0] if best else None

    def saved_some(self, attack: str) -> bool:
        return (
            self.folder is not None and (self.folder / IMAGES / f"{attack}.safetensors").is_file()
        )


def side_by_side(exhibits: Sequence[Exhibit]) -> tuple[Exhibit, ...]:
    """Exhibits that can share a page: on the same images, each with a name of its own."""
    if not exhibits:
        raise SettingError("A page needs at least one run.")
    first = exhibits[0]
    for other in exhibits[1:]:
        mine, theirs = (e.run.settings["data"] for e in (first, other))
        if mine != theirs:
            raise DataError(
                f"{_where(other)} was made on other data ({theirs}) than {_where(first)} ({mine}); "
                "a page compares runs on the same images."
            )
    names = Counter(exhibit.name for exhibit in exhibits)
    return tuple(
        replace(e, name=f"{e.name} ({e.folder.name})") if names[e.name] > 1 and e.folder else e
        for e in exhibits
    )


def _where(exhibit: Exhibit) -> str:
    return str(exhibit.folder or exhibit.name)
