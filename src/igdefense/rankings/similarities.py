"""How well a neuron's activations fit a class: the five measures of CLIP-Dissect (2204.10965).

Each takes P, the cosines of the probe images' and the class names' embeddings, and the neurons'
activations on the same images, and gives a score for every class and neuron. Defaults are those of
CLIP-Dissect. Neurons are worked on in chunks, so memory stays near that of the arguments.
"""

import math
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from igdefense.rankings.top_images import top_images
from igdefense.types import Scores

Cosines = Float[Tensor, "images classes"]
Averages = Float[Tensor, "images neurons"]
Measure = Callable[..., Scores]
CHUNK = 2**23  # activations at a time
SMALL = 2**20  # likelihoods at a time


@torch.no_grad()
def soft_wpmi(
    similarities: Cosines,
    activations: Averages,
    *,
    top_k: int = 100,
    scale: float = 10,
    weight: float = 1,
    first: float = 0.998,
    last: float = 0.97,
    least: float = 1e-7,
) -> Scores:
    """Soft weighted pointwise mutual information, classes x neurons.

    With S the softmax of `scale` P over the classes, a neuron's `top_k` images, and p_r falling
    from `first` towards `last` along them: sum of log(1 + p_r (S - 1)), less `weight` times the
    log of that likelihood's mean over the neurons.
    """
    top = min(top_k, len(activations))
    rank = torch.arange(top, dtype=torch.double, device=activations.device)[:, None]
    belief = first - rank / top * (first - last)

    def likelihood(shown: Tensor) -> Tensor:
        return shown.mul_(belief).add_(1 - belief + least)

    return _information(similarities, activations, top, scale, weight, likelihood)


@torch.no_grad()
def wpmi(
    similarities: Cosines,
    activations: Averages,
    *,
    top_k: int = 28,
    scale: float = 2,
    weight: float = 0.6,
    least: float = 1e-7,
) -> Scores:
    """Weighted pointwise mutual information: as `soft_wpmi`, sure of every one of the images."""
    top = min(top_k, len(activations))
    return _information(
        similarities, activations, top, scale, weight, lambda shown: shown.add_(least)
    )


@torch.no_grad()
def rank_reorder(
    similarities: Cosines, activations: Averages, *, share: float = 0.05, power: float = 0.5
) -> Scores:
    """How little a neuron's top activations change when put in the order of the class's cosines.

    Minus the mean cubed change over the top `share` of the images, relative to that of a random
    order, and divided by the mean cosine to the given power. Against CLIP-Dissect: the random
    order's change is its exact mean, not that of five draws, and mean cosines below 1e-4 count
    as 1e-4, as CLIP has none below.
    """
    top = max(1, int(len(activations) * share))
    scores = []
    for some in _chunks(activations, top * similarities.shape[1]):
        best = top_images(some, top)
        falling = some.T.gather(1, best).double()
        cosines = F.embedding(best, similarities)  # neurons x images x classes
        places = cosines.argsort(dim=1, stable=True).argsort(dim=1)
        moved = falling.flip(1)[:, :, None].expand(cosines.shape).gather(1, places)
        change = (falling[:, :, None] - moved).abs().pow(3).mean(1)
        chance = _mean_cubed_difference(falling)[:, None]
        relative = torch.where(chance > 0, change / chance.clamp(min=1e-300), 1.0)
        scores.append(-relative / cosines.double().mean(1).clamp(min=1e-4).pow(power))
    return torch.cat(scores).T.to(activations.dtype)


@torch.no_grad()
def cosine(similarities: Cosines, activations: Averages) -> Scores:
    """The cosine of a class's and a neuron's values over the images."""
    return _unit(similarities.to(activations.dtype)).T @ _unit(activations)


@torch.no_grad()
def cosine_cubed(similarities: Cosines, activations: Averages) -> Scores:
    """The same of the values' cubed deviations from their means: strong images count for more."""
    centred = similarities.to(activations.dtype)
    centred = centred - centred.mean(0)
    return _unit(centred.pow(3), 1e-3).T @ _unit((activations - activations.mean(0)).pow(3), 1e-3)


MEASURES: dict[str, Measure] = {
    "soft-wpmi": soft_wpmi,
    "wpmi": wpmi,
    "rank-reorder": rank_reorder,
    "cosine": cosine,
    "cosine-cubed": cosine_cubed,
}
TOP_K = {"soft-wpmi": 100, "wpmi": 28}  # the defaults of the measures that have one


def _information(
    similarities: Tensor,
    activations: Tensor,
    top: int,
    scale: float,
    weight: float,
    likelihood: Callable[[Tensor], Tensor],
) -> Tensor:
    shares = (similarities.T.double() * scale).softmax(dim=0).T.contiguous()  # faster so
    sums: list[Tensor] = []
    few = max(1, SMALL // (top * similarities.shape[1]))
    for some in _chunks(activations):
        for best in top_images(some, top).split(few):
            factors = likelihood(F.embedding(best, shares))  # neurons x images x classes
            # Fewer logarithms: a product of 32 is above 1e-230, and a double holds 1e-307.
            logs = [part.prod(1).log() for part in factors.split(32, dim=1)]
            sums.append(torch.stack(logs).sum(0))
    evidence = torch.cat(sums).T
    mean = evidence.logsumexp(1, keepdim=True) - math.log(evidence.shape[1])
    return (evidence - weight * mean).to(activations.dtype)


def _chunks(activations: Tensor, each: int = 0) -> Iterator[Tensor]:
    """Some neurons at a time, by the images or, if that is more, `each` numbers for a neuron."""
    size = max(1, CHUNK // max(each, len(activations)))
    for start in range(0, activations.shape[1], size):
        yield activations[:, start : start + size].contiguous()


def _mean_cubed_difference(falling: Tensor) -> Tensor:
    """The mean of |a - b| cubed over all pairs of a row's values, which fall along the row."""
    values = (falling - falling.mean(1, keepdim=True)).flip(1)
    below = torch.arange(values.shape[1], dtype=values.dtype, device=values.device)
    one, two, three = (values.pow(p).cumsum(1) - values.pow(p) for p in (1, 2, 3))
    total = below * values**3 - 3 * values**2 * one + 3 * values * two - three
    return (2 * total.sum(1) / values.shape[1] ** 2).clamp(min=0)


def _unit(values: Tensor, least: float = 1e-12) -> Tensor:
    return values / values.norm(dim=0, keepdim=True).clamp(min=least)
