"""Smoothing alone: the control that shows what noise does without masks."""

from collections.abc import Sequence

from torch import nn

from igdefense.defenses.noise import Kind, Noise
from igdefense.models.fingerprint import hash_text, identity
from igdefense.randomness import Key
from igdefense.types import Images, Logits


class Smoothed(nn.Module):
    """The mean logits of a model under Gaussian noise in pixel space."""

    def __init__(
        self,
        model: nn.Module,
        *,
        sigma: float = 4 / 255,
        samples: int = 1,
        seed: int = 0,
        noise: Kind = "fresh",
    ) -> None:
        super().__init__()
        self.model = model
        self.noise = Noise(sigma, samples, seed, noise)
        self.random = sigma > 0 and noise == "fresh"
        self.train(model.training)

    def extra_repr(self) -> str:
        return repr(self.noise)

    def identity(self) -> str:
        """Names the smoothed model: its base and its noise."""
        return hash_text(type(self).__name__, identity(self.model), repr(self.noise))

    def forward(self, images: Images, keys: Sequence[Key] | None = None) -> Logits:
        if self.noise.sigma == 0:
            return self.model(images)
        logits = self.model(self.noise.around(images, keys))
        return logits.unflatten(0, (self.noise.samples, images.shape[0])).mean(0)
