"""Gaussian noise in pixel space, from a generator of its own."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from igdefense.errors import SettingError
from igdefense.randomness import Key, Streams, generator, seed_of
from igdefense.types import Images

Kind = Literal["fresh", "frozen"]


class Noise:
    """`samples` noise images for each image, not clamped to [0, 1].

    `fresh` draws anew at each call. `frozen` uses one set of noise images, drawn from the seed
    alone, for every input. With `keys`, one per image, an image's fresh draws depend on the seed
    and its key only, whatever batch it comes in.
    """

    def __init__(self, sigma: float, samples: int = 1, seed: int = 0, kind: Kind = "fresh") -> None:
        if not 0 <= sigma <= 1:
            raise SettingError(
                f"sigma = {sigma:g} is outside [0, 1]; it is in pixel units, so write 4/255."
            )
        if samples < 1:
            raise SettingError(f"samples = {samples}; at least 1 noise image is needed.")
        if kind not in ("fresh", "frozen"):
            raise SettingError(f"noise = {kind!r}; expected 'fresh' or 'frozen'.")
        self.sigma, self.samples, self.seed, self.kind = sigma, samples, seed, kind
        self._rng = generator(seed, "noise")

    def __repr__(self) -> str:
        return (
            f"Noise(sigma={self.sigma * 255:g}/255, samples={self.samples}, "
            f"{self.kind}, seed={self.seed})"
        )

    def around(self, images: Images, keys: Sequence[Key] | None = None) -> Tensor:
        """The noisy copies, sample by sample: (samples x images, channels, height, width)."""
        copies = images[None] + self._draw(images, keys).to(images)
        return copies.flatten(0, 1)

    def _draw(self, images: Images, keys: Sequence[Key] | None) -> Tensor:
        shape = images.shape[1:]
        if self.kind == "frozen":
            rng = generator(self.seed, "noise")
            noise = torch.empty(self.samples, 1, *shape)
            return noise.normal_(0, 1, generator=rng) * self.sigma
        if keys is None:
            noise = torch.empty(self.samples, len(images), *shape)
            return noise.normal_(0, 1, generator=self._rng) * self.sigma
        if len(keys) != len(images):
            raise SettingError(f"There are {len(keys)} keys for {len(images)} images.")
        streams = Streams([seed_of(self.seed, "noise", key) for key in keys])
        return streams.normal((self.samples, *shape)).transpose(0, 1) * self.sigma
