"""Explanation: a class's top neurons, what excites each of them and which classes it serves."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from igdefense.data.data import Data
from igdefense.errors import DataError, SettingError
from igdefense.files import written_whole
from igdefense.models.check import check_model
from igdefense.rankings.maps import averages, stream
from igdefense.rankings.ranking import Ranking
from igdefense.split import split

FORMAT = "igdefense-explanation-1"


@dataclass(frozen=True, eq=False)
class Explanation:
    """The neurons that matter most to one class, the first first."""

    ranking: str  # its method
    layer: str
    width: int  # neurons of the layer
    label: int
    class_names: tuple[str, ...]
    keep: int
    neurons: tuple[int, ...]
    scores: Float[Tensor, " neurons"]
    places: Int[Tensor, "neurons classes"]
    """Where each class ranks the neuron; 0 is first."""
    images: Int[Tensor, "neurons images"]
    """Positions in the probe set of the images that excite the neuron most."""
    activations: Float[Tensor, "neurons images"]
    """The neuron's activation there, averaged over the map."""

    @property
    def class_name(self) -> str:
        return self.class_names[self.label]

    def serves(self, row: int) -> list[str]:
        """The classes that have this neuron among their top `keep`."""
        return [
            name
            for name, place in zip(self.class_names, self.places[row].tolist(), strict=True)
            if place < self.keep
        ]

    def __repr__(self) -> str:
        return f"Explanation of {self.class_name!r} by {self.ranking} of {self.layer}"

    def table(self, labels: Tensor | None = None) -> str:
        """A row for each neuron; with the probe set's labels, what its images show."""
        lines = [
            f"{self.class_name}: top neurons of {self.layer} by {self.ranking}. 'Serves' names the "
            f"classes with the neuron among their top {self.keep} of {self.width}.",
            "neuron  score       activation  most exciting images  serves",
        ]
        for row, neuron in enumerate(self.neurons):
            shown = self.images[row]
            seen = " ".join(map(str, shown.tolist()[:5]))
            if labels is not None:
                seen = most_common([self.class_names[i] for i in labels[shown].tolist()])
            served = self.serves(row)
            lines.append(
                f"{neuron:<6}  {float(self.scores[row]):<10.4g}  "
                f"{float(self.activations[row, 0]):<10.4g}  {seen:<20}  "
                f"{len(served)} of {len(self.class_names)}: {', '.join(served) or 'none'}"
            )
        return "\n".join(lines)

    def save(self, path: str | Path) -> None:
        """Write every number as JSON."""
        record: dict[str, Any] = {
            "format": FORMAT,
            "ranking": self.ranking,
            "layer": self.layer,
            "class": self.class_name,
            "keep": self.keep,
            "neurons": [
                {
                    "neuron": neuron,
                    "score": float(self.scores[row]),
                    "places": self.places[row].tolist(),
                    "serves": self.serves(row),
                    "images": self.images[row].tolist(),
                    "activations": self.activations[row].tolist(),
                }
                for row, neuron in enumerate(self.neurons)
            ],
            "class names": self.class_names,
        }
        with written_whole(Path(path)) as part:
            part.write_text(json.dumps(record, indent=1) + "\n")


@torch.no_grad()
def explain(
    ranking: Ranking,
    model: nn.Module,
    data: Data,
    label: int | str,
    *,
    top: int = 5,
    images: int = 8,
    keep: int | None = None,
    batch_size: int = 100,
    progress: bool | None = None,
) -> Explanation:
    """Look at the `top` neurons of a class, by name or number, through the probe set's images.

    A class is served by a neuron within its top `keep`, an eighth of the neurons by default.
    """
    classes = check_model(model, data.images[:2])
    if not classes == len(data.class_names) == ranking.classes:
        raise DataError(
            f"The model has {classes} logits, the data {len(data.class_names)} classes and the "
            f"ranking {ranking.classes}; all three must be the same classes."
        )
    number = _class_number(label, data.class_names)
    keep = max(1, ranking.neurons // 8) if keep is None else keep
    for name, value in (("top", top), ("keep", keep)):
        if not 1 <= value <= ranking.neurons:
            raise SettingError(
                f"{name} = {value} is outside 1 to {ranking.neurons}, the neurons of "
                f"{ranking.layer!r}."
            )
    if not 1 <= images <= len(data):
        raise SettingError(f"images = {images} is outside 1 to {len(data)}, the probe set.")
    order = ranking.order
    neurons = order[number, :top]
    best = positions = torch.empty(top, 0)
    for start, output in stream(
        split(model, ranking.layer), data, batch_size, "exciting images", progress
    ):
        values = averages(output)[:, neurons.to(output.device)].T.cpu()
        here = torch.arange(start, start + values.shape[1]).expand(top, -1)
        best, positions = torch.cat([best, values], 1), torch.cat([positions.long(), here], 1)
        chosen = best.argsort(dim=1, descending=True, stable=True)[:, :images]
        best, positions = best.gather(1, chosen), positions.gather(1, chosen)
    return Explanation(
        ranking.provenance.get("method", "ranking"),
        ranking.layer,
        ranking.neurons,
        number,
        tuple(data.class_names),
        keep,
        tuple(neurons.tolist()),
        ranking.scores[number, neurons],
        order.argsort(dim=1)[:, neurons].T,
        positions,
        best,
    )


def most_common(names: Sequence[str]) -> str:
    """`6 cat, 2 dog`: how often each name occurs, the most frequent first."""
    counted = sorted(set(names), key=lambda name: (-names.count(name), names.index(name)))
    return ", ".join(f"{names.count(name)} {name}" for name in counted)


def _class_number(label: int | str, names: Sequence[str]) -> int:
    if isinstance(label, str) and label in names:
        return list(names).index(label)
    if (isinstance(label, int) or label.isdecimal()) and 0 <= int(label) < len(names):
        return int(label)
    some = ", ".join(names[:20]) + (f"... ({len(names)})" if len(names) > 20 else "")
    raise SettingError(f"There is no class {label!r}; expected one of: {some}.")
