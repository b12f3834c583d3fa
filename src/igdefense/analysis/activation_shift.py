"""Activation shift: which classes' neurons an attack quietens and which it excites."""

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from igdefense.errors import DataError
from igdefense.files import written_whole
from igdefense.randomness import generator
from igdefense.rankings.maps import averages
from igdefense.rankings.ranking import Ranking
from igdefense.split import activations_of, split
from igdefense.types import Images, Labels, Outcomes

FORMAT = "igdefense-activation-shift-1"
Definition = Literal["paper", "released"]
GROUPS = ("true class", "predicted class", "other classes", "no class")
RESAMPLES = 1000


@dataclass(frozen=True)
class Change:
    """The change in % of one group of neurons under attacks of one outcome."""

    group: str
    successful: bool
    definition: Definition
    images: int
    percent: float  # NaN where the group has no neurons or no image counts
    interval: tuple[float, float]  # 95 %, images drawn with replacement


@dataclass(frozen=True)
class ActivationShift:
    """Section 3 of the paper (arXiv:2409.15190): the activations of each class's top neurons.

    `paper` is the change of the mean activation over all images, `released` the mean of each
    image's own relative change over the images that are right when clean. A successful attack is
    one after which the base model is wrong; the predicted class is the one it then names, so it is
    left out of unsuccessful attacks, where it is the true class.
    """

    layer: str
    ranking: str
    keep: int
    neurons: int
    unimportant: int  # neurons in no class's top `keep`
    changes: tuple[Change, ...]

    def of(self, definition: Definition, successful: bool) -> dict[str, Change]:
        """The groups' changes by name."""
        return {
            change.group: change
            for change in self.changes
            if (change.definition, change.successful) == (definition, successful)
        }

    def table(self) -> str:
        """One line for each group, definition and outcome."""
        lines = [
            f"{self.layer}, top {self.keep} of {self.neurons} by {self.ranking}; "
            f"{self.unimportant} neurons in no class's top {self.keep}.",
            f"{'attack':<12}  {'definition':<10}  {'neurons of':<15}  {'n':>5}  change % [95 %]",
        ]
        for c in self.changes:
            outcome = "successful" if c.successful else "unsuccessful"
            low, high = c.interval
            number = "-" if math.isnan(c.percent) else f"{c.percent:+.1f} [{low:+.1f}, {high:+.1f}]"
            lines.append(
                f"{outcome:<12}  {c.definition:<10}  {c.group:<15}  {c.images:>5}  {number}"
            )
        return "\n".join(lines)

    def save(self, path: str | Path) -> None:
        """Write every number as JSON; what is not defined is null."""
        record = {"format": FORMAT, **asdict(self)}
        for change in record["changes"]:
            if math.isnan(change["percent"]):
                change |= {"percent": None, "interval": None}
        with written_whole(Path(path)) as part:
            part.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n")


@torch.no_grad()
def activation_shift(
    model: nn.Module,
    ranking: Ranking,
    keep: int,
    images: Images,
    x: Images,
    labels: Labels,
    *,
    seed: int = 0,
    batch_size: int = 100,
) -> ActivationShift:
    """Compare the base model's activations on clean `images` and on the attacked ones, `x`."""
    if images.shape != x.shape:
        raise DataError(f"There are images {tuple(images.shape)} but attacked {tuple(x.shape)}.")
    parts = split(model, ranking.layer)
    sides: list[tuple[Tensor, Tensor]] = []
    for side in (images, x):
        levels, predictions = [], []
        for batch in side.split(batch_size):
            state = parts.before(batch)
            levels.append(averages(activations_of(state)))
            predictions.append(parts.after(state).argmax(1))
        sides.append((torch.cat(levels).double(), torch.cat(predictions)))
    (clean, first), (attacked, then) = sides
    masks = ranking.masks(keep).to(clean)
    unimportant = masks.sum(0) == 0
    changes = []
    for successful in (True, False):
        outcome = (then != labels) == successful
        for definition in ("paper", "released"):
            chosen = outcome if definition == "paper" else outcome & (first == labels)
            before = _groups(clean, masks, unimportant, labels, then)
            after = _groups(attacked, masks, unimportant, labels, then)
            for group in GROUPS:
                if group == "predicted class" and not successful:
                    continue
                changes.append(
                    _change(
                        group, successful, definition, chosen, before[group], after[group], seed
                    )
                )
    method = ranking.provenance.get("method", "ranking")
    return ActivationShift(
        ranking.layer, method, keep, ranking.neurons, int(unimportant.sum()), tuple(changes)
    )


def _groups(
    levels: Float[Tensor, "images neurons"],
    masks: Float[Tensor, "classes neurons"],
    unimportant: Tensor,
    labels: Labels,
    predictions: Labels,
) -> dict[str, Tensor]:
    """Each image's mean activation over the neurons of each group; NaN where there are none."""
    by_class = levels @ (masks / masks.sum(1, keepdim=True)).T  # images x classes
    others = torch.ones_like(by_class)
    others.scatter_(1, labels[:, None], 0).scatter_(1, predictions[:, None], 0)
    return {
        "true class": by_class.gather(1, labels[:, None]).squeeze(1),
        "predicted class": by_class.gather(1, predictions[:, None]).squeeze(1),
        "other classes": (by_class * others).sum(1) / others.sum(1),
        "no class": levels[:, unimportant].mean(1),
    }


def _change(
    group: str,
    successful: bool,
    definition: Definition,
    chosen: Outcomes,
    before: Tensor,
    after: Tensor,
    seed: int,
) -> Change:
    usable = chosen & torch.isfinite(before) & ((before != 0) | (definition == "paper"))
    before, after = before[usable], after[usable]
    count = len(before)
    if count == 0 or not before.sum():
        return Change(group, successful, definition, count, math.nan, (math.nan, math.nan))
    rng = generator(seed, "activation shift", group)
    drawn = torch.randint(count, (RESAMPLES, count), generator=rng)
    if definition == "paper":
        value = (after - before).sum() / before.sum()
        values = (after - before)[drawn].sum(1) / before[drawn].sum(1)
    else:
        ratios = (after - before) / before
        value, values = ratios.mean(), ratios[drawn].mean(1)
    low, high = values.quantile(torch.tensor([0.025, 0.975], dtype=values.dtype)).tolist()
    percent = 100 * float(value)
    return Change(group, successful, definition, count, percent, (100 * low, 100 * high))
