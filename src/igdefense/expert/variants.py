"""The defense an adversary builds for itself: the same parts, other settings."""

from typing import Any

from torch import nn

from igdefense.defenses.ig_defense import IGDefense
from igdefense.defenses.noise import Noise
from igdefense.defenses.smoothing import Smoothed


def variant(defense: nn.Module, **changes: Any) -> nn.Module:
    """IG-Defense (`IGDefense.varied`) or smoothing with some of its settings changed."""
    if isinstance(defense, IGDefense):
        return defense.varied(**changes)
    assert isinstance(defense, Smoothed)
    own = defense.noise
    now = {"sigma": own.sigma, "samples": own.samples, "seed": own.seed, "noise": own.kind}
    return Smoothed(defense.model, **(now | changes))


def sigma_of(defense: nn.Module) -> float:
    """The pixel noise of the defense; 0 if it has none."""
    noise = getattr(defense, "noise", None)
    return noise.sigma if isinstance(noise, Noise) else 0.0


def without_mask(defense: nn.Module) -> str | None:
    """Why an attack on the mask does not apply."""
    return None if isinstance(defense, IGDefense) else "the defense has no mask"
