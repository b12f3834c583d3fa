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
from igdefense.types import Images, Labels, Outcomes

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

    Each image goes its own way, some along a new ray, some bisecting, and all of them ask their
    next question in one batch.
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
        rays, spent = _Rays(images), torch.zeros_like(labels)
        while True:
            resting = spent >= self.queries
            if self.stop_at_eps:
                resting |= self.threat.size(rays.closest, images) <= self.threat.eps
            live = (~resting | rays.bisecting).nonzero().flatten()
            if not len(live):
                break
            wrong = most_wrong(view[live], rays.questions(live), labels[live], self.votes)
            spent[live] += self.votes
            rays.learn(live, wrong)
        distance = self.threat.size(rays.closest, images)
        inside = (distance <= self.threat.eps).view(-1, 1, 1, 1)
        return torch.where(inside, rays.closest, images), distance, spent


class _Rays:
    """Where the search of each image stands: its best ray, and the one it is trying."""

    def __init__(self, images: Images) -> None:
        self.images = images
        self.signs = torch.ones_like(images.flatten(1))
        # In L2 units, along the unit ray.
        self.radii = torch.full_like(self.signs[:, 0], float("inf"))
        self.closest = at(images, self.signs, self.radii)
        self.level = torch.zeros_like(self.radii, dtype=torch.long)
        self.block = self.level.clone()
        self.bisecting = torch.zeros_like(self.level, dtype=torch.bool)
        self.low, self.high = torch.zeros_like(self.radii), self.radii.clone()

    def questions(self, live: Tensor) -> Images:
        """The point each image asks about: its new ray at the best radius, or a bisection's."""
        middle = (self.low[live] + self.high[live]) / 2
        radii = torch.where(self.bisecting[live], middle, self.radii[live])
        return at(self.images[live], self._attempts(live), radii)

    def learn(self, live: Tensor, wrong: Outcomes) -> None:
        """Go on from the answers: bisect along a ray that helps, else try the next one."""
        before = self.bisecting[live]
        middle = (self.low[live] + self.high[live]) / 2
        self.high[live[before & wrong]] = middle[before & wrong]
        self.low[live[before & ~wrong]] = middle[before & ~wrong]
        found = live[before & (self.high[live] - self.low[live] <= TOLERANCE)]
        self._keep(found[self.high[found] < self.radii[found]])
        self.bisecting[found] = False
        self._next(torch.cat([found, live[~before & ~wrong]]))
        begun = live[~before & wrong]
        self.high[begun] = self.radii[begun].clamp(max=math.sqrt(self.signs.shape[1]))
        self.low[begun] = 0
        self.bisecting[begun] = True

    def _attempts(self, live: Tensor) -> Signs:
        """The best signs with one block turned round."""
        size = self._sizes(live)
        start = (self.block[live] * size).unsqueeze(1)
        pixel = torch.arange(self.signs.shape[1], device=self.signs.device)
        inside = (pixel >= start) & (pixel < start + size.unsqueeze(1))
        return torch.where(inside, -self.signs[live], self.signs[live])

    def _sizes(self, live: Tensor) -> Tensor:
        """Pixels of a block; the last one of a level may be shorter."""
        parts = 2 ** self.level[live]
        return (self.signs.shape[1] + parts - 1) // parts

    def _keep(self, better: Tensor) -> None:
        self.signs[better], self.radii[better] = self._attempts(better), self.high[better]
        self.closest[better] = at(self.images[better], self.signs[better], self.radii[better])

    def _next(self, done: Tensor) -> None:
        """The next block, or the first of the next level, as long as blocks can be halved."""
        size = self._sizes(done)
        self.block[done] += 1
        pixels, blocks = self.signs.shape[1], self.block[done]
        over = done[(blocks * size >= pixels) | (blocks == 2 ** self.level[done])]
        self.level[over] += (self._sizes(over) > 1).long()
        self.block[over] = 0


def at(images: Images, signs: Signs, radii: Radii) -> Images:
    """The points so far (in L2 units) along the rays, cut to the pixel box."""
    step = (radii / math.sqrt(signs.shape[1])).unsqueeze(1) * signs
    return (images + step.view_as(images)).clamp(0, 1)
