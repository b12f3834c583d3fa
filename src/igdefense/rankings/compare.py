"""Comparison: how far rankings of one layer agree, class by class."""

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from igdefense.errors import OutputError, RankingError, SettingError
from igdefense.files import written_whole
from igdefense.rankings.ranking import Ranking

log = logging.getLogger(__name__)
FORMAT = "igdefense-comparison-1"
PARTS = (128, 16, 8, 4, 2)  # the default ks: a half of the neurons, a quarter...


@dataclass(frozen=True, eq=False)
class Comparison:
    """What every two rankings have in common."""

    layer: str
    neurons: int
    names: tuple[str, ...]
    class_names: tuple[str, ...]
    ks: tuple[int, ...]
    overlap: Float[Tensor, "rankings rankings ks classes"]
    """The share of a class's top k that both rankings name."""
    correlation: Float[Tensor, "rankings rankings classes"]
    """Spearman's, of a class's scores; NaN where all scores of a ranking are equal."""

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(len(self.names)), 2))

    @property
    def chance(self) -> list[float]:
        """The overlap to expect of two random rankings: k / neurons."""
        return [k / self.neurons for k in self.ks]

    def __repr__(self) -> str:
        return f"Comparison of {', '.join(self.names)} at {self.layer}"

    def table(self, *, each_class: bool = True) -> str:
        """Means over the classes for every pair, beside chance; then each class by itself."""
        titles = [self.pair_name(pair) for pair in self.pairs]
        width = max(map(len, ["chance (k / neurons)", *titles]))
        head = "".join(f"  k={k:<5}" for k in self.ks) + "  Spearman"
        lines = [
            f"{self.layer}: {len(self.class_names)} classes x {self.neurons} neurons. Overlap of "
            "the top k, and Spearman's correlation of the scores; means over the classes.",
            f"{'':<{width}}{head}",
        ]
        for (a, b), title in zip(self.pairs, titles, strict=True):
            cells = _cells(self.overlap[a, b].mean(1).tolist(), self.correlation[a, b].nanmean())
            lines.append(f"{title:<{width}}{cells}")
        lines.append(f"{'chance (k / neurons)':<{width}}{_cells(self.chance, 0.0)}")
        if not each_class:
            return "\n".join(lines)
        for (a, b), title in zip(self.pairs, titles, strict=True):
            lines += ["", f"{title}, each class", f"{'':<{width}}{head}"]
            for c, name in enumerate(self.class_names):
                cells = _cells(self.overlap[a, b, :, c].tolist(), self.correlation[a, b, c])
                lines.append(f"{name[:width]:<{width}}{cells}")
        return "\n".join(lines)

    def pair_name(self, pair: tuple[int, int]) -> str:
        return " / ".join(self.names[i] for i in pair)

    def save(self, path: str | Path) -> None:
        """Write every number as JSON."""
        record: dict[str, Any] = {
            "format": FORMAT,
            "layer": self.layer,
            "neurons": self.neurons,
            "names": self.names,
            "class names": self.class_names,
            "ks": self.ks,
            "chance": self.chance,
            "overlap": self.overlap.tolist(),
            "correlation": _without_nan(self.correlation.tolist()),
        }
        with written_whole(Path(path)) as part:
            part.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> "Comparison":
        """Read what `save` wrote."""
        try:
            record = json.loads(Path(path).read_text())
            if record["format"] != FORMAT:
                raise ValueError(f"its format is {record['format']!r}")
            correlation = np.array(record["correlation"], dtype=np.float64)  # null becomes NaN
            return cls(
                record["layer"],
                record["neurons"],
                tuple(record["names"]),
                tuple(record["class names"]),
                tuple(record["ks"]),
                torch.tensor(record["overlap"], dtype=torch.double),
                torch.from_numpy(correlation),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OutputError(f"{path} is not a saved comparison ({error}).") from error


def compare(
    rankings: Mapping[str, Ranking],
    *,
    ks: Sequence[int] | None = None,
    class_names: Sequence[str] | None = None,
) -> Comparison:
    """Compare rankings of the same layer, by name; `ks` halve from half the neurons by default."""
    if len(rankings) < 2:
        raise SettingError(f"A comparison needs at least two rankings, got {len(rankings)}.")
    (first_name, first), *others = rankings.items()
    for name, other in others:
        if (other.layer, other.scores.shape) != (first.layer, first.scores.shape):
            raise RankingError(
                f"{name} ranks {_shape(other)} but {first_name} ranks {_shape(first)}: compare "
                "rankings of one layer of one model."
            )
    if len({r.provenance["model"] for r in rankings.values() if "model" in r.provenance}) > 1:
        log.warning("These rankings were made for models with different weights.")
    neurons, classes = first.neurons, first.classes
    chosen = sorted(set(ks)) if ks else sorted({max(1, neurons // part) for part in PARTS})
    if chosen[0] < 1 or chosen[-1] > neurons:
        wrong = chosen[0] if chosen[0] < 1 else chosen[-1]
        raise SettingError(f"k = {wrong} is outside 1 to {neurons}, the neurons of {first.layer}.")
    names = tuple(class_names or map(str, range(classes)))
    if len(names) != classes:
        raise SettingError(f"There are {len(names)} class names for {classes} classes.")
    return Comparison(
        first.layer,
        neurons,
        tuple(rankings),
        names,
        tuple(chosen),
        _overlaps(list(rankings.values()), chosen),
        _correlations(list(rankings.values())),
    )


def _overlaps(rankings: list[Ranking], ks: list[int]) -> Tensor:
    shares = []
    for k in ks:
        masks = torch.stack([ranking.masks(k).double() for ranking in rankings])
        shares.append(torch.einsum("acn,bcn->abc", masks, masks) / k)
    return torch.stack(shares, dim=2)


def _correlations(rankings: list[Ranking]) -> Tensor:
    """Pearson's correlation of the ranks, ties sharing their mean rank."""
    scores = torch.stack([ranking.scores.cpu() for ranking in rankings])
    ordered = scores.sort(dim=2).values
    below = torch.searchsorted(ordered, scores)
    not_above = torch.searchsorted(ordered, scores, right=True)
    ranks = (below + not_above + 1).double() / 2
    centred = ranks - ranks.mean(2, keepdim=True)
    unit = centred / centred.norm(dim=2, keepdim=True)  # 0 / 0, NaN, where all scores are equal
    return torch.einsum("acn,bcn->abc", unit, unit).clamp(-1, 1)


def _shape(ranking: Ranking) -> str:
    return f"{ranking.layer} ({ranking.classes} classes x {ranking.neurons} neurons)"


def _cells(shares: Sequence[float], correlation: Tensor | float) -> str:
    overlap = "".join(f"  {share:<7.3f}" for share in shares)
    return overlap + ("  -" if math.isnan(correlation) else f"  {float(correlation):.3f}")


def _without_nan(values: Any) -> Any:
    if isinstance(values, list):
        return [_without_nan(value) for value in values]
    return None if math.isnan(values) else values
