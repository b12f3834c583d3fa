"""How many neurons to keep: the fewest that leave the clean accuracy about where it was."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from igdefense.data.data import Data
from igdefense.defenses.ig_defense import IGDefense
from igdefense.defenses.noise import Kind
from igdefense.errors import SettingError
from igdefense.models.check import check_model
from igdefense.progress import track
from igdefense.rankings.head import AffineHead
from igdefense.rankings.ranking import Ranking
from igdefense.split import activations_of, split
from igdefense.types import Images, Labels

NEGLIGIBLE = 1e-7  # share of a pseudo-label that cannot move a prediction


@dataclass(frozen=True)
class Tuning:
    """Clean accuracy for each number of kept neurons, beside the base model's."""

    accuracy: dict[int, float]
    base: float
    tolerance: float
    images: int

    @property
    def keep(self) -> int | None:
        """The smallest `keep` within the tolerance; None if there is none."""
        return min((k for k, a in self.accuracy.items() if a >= self._floor), default=None)

    @property
    def _floor(self) -> float:
        return self.base - self.tolerance - 1e-12

    def table(self) -> str:
        """One line for each `keep` where the accuracy changes, the chosen one marked."""
        lines = [f"{'keep':>6}  clean accuracy (base {self.base:.2%}, n = {self.images})"]
        before = None
        for keep, accuracy in self.accuracy.items():
            chosen = keep == self.keep
            if accuracy != before or chosen or keep == max(self.accuracy):
                mark = f"  <- smallest within {self.tolerance:.2%}" if chosen else ""
                lines.append(f"{keep:>6}  {accuracy:.2%}{mark}")
            before = accuracy
        return "\n".join(lines)


@torch.no_grad()
def tune(
    model: nn.Module,
    ranking: Ranking,
    data: Data,
    *,
    tolerance: float = 0.005,
    keeps: Sequence[int] | None = None,
    sigma: float = 4 / 255,
    samples: int = 1,
    temperature: float = 0.01,
    seed: int = 0,
    noise: Kind = "fresh",
    batch_size: int = 100,
    progress: bool | None = None,
) -> Tuning:
    """The paper's heuristic for k: a gain is usually found where clean accuracy is kept.

    Where the part after the layer is affine, one pass over the data gives the accuracy of every
    `keep`; elsewhere the second pass runs once for each of `keeps` (a geometric grid by default).
    """
    if not 0 <= tolerance < 1:
        raise SettingError(f"tolerance = {tolerance:g}; expected a share between 0 and 1.")
    check_model(model, data.images[:2])
    defense = IGDefense(
        model,
        ranking,
        ranking.neurons,
        sigma=sigma,
        samples=samples,
        temperature=temperature,
        seed=seed,
        noise=noise,
    )
    parts = split(model, ranking.layer)
    first = activations_of(parts.before(data.images[:2]))
    head = AffineHead.of(parts, first) if parts.affine else None
    grid = list(keeps) if keeps else _grid(ranking.neurons, every=head is not None)
    if min(grid) < 1 or max(grid) > ranking.neurons:
        raise SettingError(f"keeps must lie in 1 to {ranking.neurons}, got {grid}.")
    base = 0
    right = torch.zeros(len(grid))
    position = 0
    count = -(-len(data) // batch_size)
    for images, labels in track(data.batches(batch_size), "tuning keep", progress, total=count):
        keys = range(position, position + len(images))
        position += len(images)
        logits, state = defense._first_pass(images, keys)
        guess = defense.guess(logits)
        activations = activations_of(state)
        base += int((parts.after(state).argmax(1) == labels).sum())
        if head is not None:
            predictions = _predict_every_keep(head, ranking, guess, activations)
            right += (predictions[:, torch.tensor(grid) - 1] == labels[:, None]).sum(0)
        else:
            right += _right_for(defense, grid, guess, images, labels)
    accuracy = {keep: float(hits) / len(data) for keep, hits in zip(grid, right, strict=True)}
    return Tuning(accuracy, base / len(data), tolerance, len(data))


def _predict_every_keep(
    head: AffineHead, ranking: Ranking, guess: Tensor, activations: Tensor
) -> Tensor:
    """The prediction for keep = 1, 2, ..., all neurons: images x neurons.

    Keeping one more neuron adds that neuron's contribution, weighted by the share of the
    pseudo-label whose class brings it in; so a running sum over the ranking gives every `keep`.
    """
    added = head.all_contributions(activations)
    gained = torch.zeros_like(added)
    for label, order in enumerate(ranking.order.to(guess.device)):
        chosen = (guess[:, label] > NEGLIGIBLE).nonzero().flatten()
        if len(chosen):
            gained[chosen] += guess[chosen, label, None, None] * added[chosen][:, :, order]
    return (head.bias[None, :, None] + gained.cumsum(2)).argmax(1)


def _right_for(
    defense: IGDefense, grid: list[int], guess: Tensor, images: Images, labels: Labels
) -> Tensor:
    right = torch.zeros(len(grid))
    state = split(defense.model, defense.ranking.layer).before(images)
    for i, keep in enumerate(grid):
        mask = guess @ defense.ranking.masks(keep).to(guess)
        right[i] = (defense.second_pass(state, mask).argmax(1) == labels).sum()
    return right


def _grid(neurons: int, *, every: bool) -> list[int]:
    if every:
        return list(range(1, neurons + 1))
    return sorted({max(1, round(neurons ** (i / 15))) for i in range(16)})
