"""RayS: a decision-based search for the closest wrong point along rays of signs."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor, nn

from igdefense.attacks.attack import require_positive
from igdefense.attacks.objective import most_wrong
from igdefense.attacks.threat import Linf
from igdefense.attacks.views import View, as_view
from igdefense.errors import SettingError
from igdefense.randomness import Streams
from igdefense.types import Images, Labels

TOLERANCE = 1e-3  # of the bisection, in L2 units

Radii = Float[Tensor, " batch"]
Signs = Float[Tensor, "batch pixels"]


@dataclass(frozen=True, kw_only=True)
class RayS:
    """Flip blocks of signs, ever smaller, and bisect along each ray that helps (arXiv:2006.12792).

    An image is queried until it has spent its `queries`; the last bisection may run over. The
    oracle says wrong if most of an odd number of `votes` do, each a query, whatever the view's
    `samples`. With `stop_at_eps` an image rests once its point is inside the budget, which is then
    not the closest point there is. Images without such a point are returned clean. There is no
    randomness but the view's.
    """

    version: ClassVar[int] = 1

    threat: Linf
    queries: int = 10_000
    votes: int = 1
    stop_at_eps: bool = False

    def __post_init__(self) -> None:
        require_positive(self, "queries", "votes")
        if self.votes % 2 == 0:
            raise SettingError(f"RayS needs an odd number of votes, got {self.votes}.")

    def __call__(
        self, view: View | nn.Module, images: Images, labels: Labels, rng: Generator | Streams
    ) -> Images:
        view, rng = as_view(view), Streams.of(rng, len(images))
        return self.search(view, images, labels)[0]

    @torch.no_grad()
    def search(
        self, view: View, images: Images, labels: Labels
    ) -> tuple[Images, Radii, Int[Tensor, " batch"]]:
        """The points, the L-inf distance of the closest wrong points, the queries each took."""
        signs = torch.ones_like(images.flatten(1))
        pixels = signs.shape[1]
        radii = torch.full_like(signs[:, 0], float("inf"))  # in L2 units, along the unit ray
        spent = torch.zeros(len(images), dtype=torch.long, device=images.device)
        closest = at(images, signs, radii)
        level = block = 0
        while True:
            resting = spent >= self.queries
            if self.stop_at_eps:
                resting |= self.threat.size(closest, images) <= self.threat.eps
            live = (~resting).nonzero().flatten()
            if not len(live):
                break
            size = math.ceil(pixels / 2**level)
            end = min((block + 1) * size, pixels)
            attempt = signs[live]
            attempt[:, block * size : end] *= -1
            radius, cost = self._bisect(
                view[live], images[live], labels[live], attempt, radii[live]
            )
            spent[live] += cost
            shorter = radius < radii[live]
            better = live[shorter]
            signs[better], radii[better] = attempt[shorter], radius[shorter]
            closest[better] = at(images[better], signs[better], radii[better])
            block += 1
            if end == pixels or block == 2**level:
                level, block = level + (size > 1), 0
        distance = self.threat.size(closest, images)
        inside = (distance <= self.threat.eps).view(-1, 1, 1, 1)
        return torch.where(inside, closest, images), distance, spent

    def _bisect(
        self, view: View, images: Images, labels: Labels, signs: Signs, radii: Radii
    ) -> tuple[Radii, Int[Tensor, " batch"]]:
        """Each image's radius along its new ray, no longer than now, and the queries it took."""
        high, low = radii.clone(), torch.zeros_like(radii)
        cost = torch.full(radii.shape, self.votes, device=radii.device)
        searching = (
            most_wrong(view, at(images, signs, radii), labels, self.votes).nonzero().flatten()
        )
        high[searching] = high[searching].clamp(max=math.sqrt(signs.shape[1]))
        while len(searching):
            middle = (low[searching] + high[searching]) / 2
            x = at(images[searching], signs[searching], middle)
            hit = most_wrong(view[searching], x, labels[searching], self.votes)
            cost[searching] += self.votes
            high[searching] = torch.where(hit, middle, high[searching])
            low[searching] = torch.where(hit, low[searching], middle)
            searching = searching[high[searching] - low[searching] > TOLERANCE]
        return high, cost


def at(images: Images, signs: Signs, radii: Radii) -> Images:
    """The points so far (in L2 units) along the rays, cut to the pixel box."""
    step = (radii / math.sqrt(signs.shape[1])).unsqueeze(1) * signs
    return (images + step.view_as(images)).clamp(0, 1)
