"""Hedge Defense: predict from points where no class is likely to have been attacked."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn

from igdefense.defenses.rivals.inner import (
    Gains,
    Gradient,
    check_frozen,
    check_gradient,
    check_steps,
    differentiable_step,
    later,
    logits_and_slope,
    moved,
    unchanged,
)
from igdefense.errors import SettingError
from igdefense.models.fingerprint import hash_text, identity
from igdefense.randomness import Key, Streams, generator, seed_of
from igdefense.types import Images, Logits


@dataclass(frozen=True, kw_only=True)
class Walk:
    """How far Hedge Defense goes, where it starts and what it predicts from."""

    steps: int = 20
    step: float
    eps: float
    random_start: bool
    """Uniform in ±eps around the image, or at the image."""
    summed: bool
    """Predict from the sum of the logits met on the way but for the first, or from the end."""


VARIANTS = {
    "authors": Walk(step=0.007, eps=0.031, random_start=True, summed=True),
    "croce": Walk(step=4 / 255, eps=8 / 255, random_start=False, summed=False),
    "croce-random": Walk(step=4 / 255, eps=8 / 255, random_start=True, summed=False),
}


class Hedge(nn.Module):
    """Moves each image up the cross-entropy summed over all classes (Wu et al., arXiv:2106.04938).

    `authors` walks 20 steps of 0.007 within 0.031 from a random start, and adds up the logits of
    the points 2 to 20 at which it takes a gradient. `croce` (Croce et al., arXiv:2202.13711) takes
    steps of 4/255 within 8/255 from the image (`croce-random`: from a random start) and predicts
    at the end point.

    What an attack's gradient is: `around` takes the whole walk for the identity (BPDA), so it is
    the gradient of the base model at the end point, or the sum of those at the points summed over.
    `through` differentiates every step, second derivatives of the base model included; as the
    derivative of a sign is zero, that of slope / mean |slope| stands in for it, while both clips
    are differentiated exactly.
    """

    def __init__(
        self,
        model: nn.Module,
        variant: str = "authors",
        *,
        steps: int | None = None,
        gradient: Gradient = "around",
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_frozen(model)
        check_gradient(gradient)
        if variant not in VARIANTS:
            raise SettingError(
                f"There is no variant {variant!r} of Hedge Defense; "
                f"expected one of {', '.join(VARIANTS)}."
            )
        self.walk = VARIANTS[variant]
        if steps is not None:
            self.walk = replace(self.walk, steps=steps)
        check_steps(self.walk.steps, self.walk.step, self.walk.eps)
        if self.walk.summed and self.walk.steps < 2:
            raise SettingError(f"steps = {steps}; {variant} sums from the second on: at least 2.")
        self.model, self.variant, self.gradient, self.seed = model, variant, gradient, seed
        self.random = self.walk.random_start
        self._rng = generator(seed, "hedge")
        self.eval()

    def forward(self, images: Images, keys: Sequence[Key] | None = None) -> Logits:
        """Logits; `keys`, one per image, make the random start independent of the batch."""
        walk, total = self.walk, None
        x = images + self._start(images, keys)
        for number in range(walk.steps):
            logits, slope = logits_and_slope(self.model, spread, x)
            if walk.summed and number > 0:
                logits = later(logits, self.model, self._seen(x, images))
                total = logits if total is None else total + logits
            x = self._next(x, slope, images)
        return self.model(self._seen(x, images)) if total is None else total

    def _next(self, x: Images, slope: Images, images: Images) -> Images:
        walk = self.walk
        end = moved(x.detach(), slope, images.detach(), walk.step, walk.eps)
        if self.gradient == "around":
            return end

        def again(images: Images, x: Images) -> Images:
            return differentiable_step(self.model, spread, images, x, walk.step, walk.eps)

        return later(end, again, images, x)

    def _seen(self, x: Images, images: Images) -> Images:
        """The point as the attack's gradient sees it."""
        return later(x, unchanged, images) if self.gradient == "around" else x

    def _start(self, images: Images, keys: Sequence[Key] | None) -> Images:
        shape, eps = images.shape[1:], self.walk.eps
        if not self.walk.random_start:
            return torch.zeros_like(images)
        if keys is None:
            keys = torch.randint(2**62, (len(images),), generator=self._rng).tolist()
        if len(keys) != len(images):
            raise SettingError(f"There are {len(keys)} keys for {len(images)} images.")
        streams = Streams([seed_of(self.seed, "hedge", key) for key in keys])
        return torch.empty_like(images).copy_(streams.uniform(shape, -eps, eps))

    def easier(self) -> "Hedge":
        """The same with five steps, on which Croce et al. crafted the attack that broke it."""
        steps = min(5, self.walk.steps)
        return Hedge(self.model, self.variant, steps=steps, gradient=self.gradient, seed=self.seed)

    @property
    def settings(self) -> dict[str, Any]:
        """Everything but the model."""
        return asdict(self.walk) | {"gradient": self.gradient, "seed": self.seed}

    def identity(self) -> str:
        """Names the defense: its base model and its settings."""
        return hash_text(type(self).__name__, identity(self.model), sorted(self.settings.items()))

    def extra_repr(self) -> str:
        return f"{self.variant}, {self.walk}, gradient={self.gradient!r}, seed={self.seed}"


def spread(logits: Logits) -> Gains:
    """KL(uniform || prediction): the mean cross-entropy over all classes, up to a constant."""
    return -logits.log_softmax(1).mean(1)
