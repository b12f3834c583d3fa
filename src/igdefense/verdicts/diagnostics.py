"""What the attacker's gradients look like, and how much the first guess decides."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from igdefense.attacks.objective import gradient_of
from igdefense.attacks.views import Keyed
from igdefense.errors import ModelError
from igdefense.randomness import Key
from igdefense.types import Images, Labels, Logits
from igdefense.verdicts.judge import is_random, judging_seeds, view_of

WHOLE, GUESS, MASKED = "gradient", "gradient through the guess", "gradient through the masked pass"


@runtime_checkable
class TwoPasses(Protocol):
    """A defense that guesses, then predicts from what matters to the guess, as `IGDefense` does."""

    def pseudo_label(self, images: Images, keys: Sequence[Key] | None = None) -> Tensor: ...

    def paths(self, images: Images, keys: Sequence[Key] | None = None) -> tuple[Logits, Logits]:
        """The logits, differentiable through the guess alone and the masked pass alone."""
        ...


def diagnose(
    defense: nn.Module, images: Images, labels: Labels, ids: Sequence[str], seed: int
) -> dict[str, Any]:
    """On clean images and the judging draw: gradient norms of the cross-entropy at the pixels.

    For a defense of `TwoPasses` also through either pass, and how often the guess is the final
    prediction.
    """
    streams = judging_seeds(seed, ids)
    found: dict[str, Any] = {"images": len(labels)}
    x = images.clone().requires_grad_()
    logits = view_of(defense, streams)(x)
    found[WHOLE] = _summary(logits, labels, x)
    if not isinstance(defense, TwoPasses):
        return found
    keys = Keyed(defense, streams).keys() if is_random(defense) else None
    with torch.no_grad():
        guess = defense.pseudo_label(images, keys).argmax(1)
    found["prediction is the pseudo-label"] = float((guess == logits.argmax(1)).float().mean())
    found["pseudo-label is right"] = float((guess == labels).float().mean())
    for index, name in enumerate((GUESS, MASKED)):  # each its own pass: a graph is followed once
        found[name] = _summary(defense.paths(x, keys)[index], labels, x)
    return found


def in_words(found: dict[str, Any] | None) -> list[str]:
    """One sentence for the table."""
    if not found or GUESS not in found:
        return []
    guess, masked = found[GUESS], found[MASKED]
    return [
        f"On the first {found['images']} clean images the prediction is the pseudo-label on "
        f"{found['prediction is the pseudo-label']:.0%}; the median gradient norm is "
        f"{guess['median norm']:.2g} through the guess and {masked['median norm']:.2g} through the "
        f"masked pass, exactly zero on {guess['zero']:.0%} and {masked['zero']:.0%}."
    ]


def _summary(logits: Logits, labels: Labels, x: Images) -> dict[str, float]:
    norms = _norms(F.cross_entropy(logits, labels, reduction="none"), x)
    return {
        "mean norm": float(norms.mean()),
        "median norm": float(norms.median()),
        "zero": float((norms == 0).double().mean()),
    }


def _norms(losses: Float[Tensor, " batch"], x: Images) -> Float[Tensor, " batch"]:
    try:
        return gradient_of(losses, x).flatten(1).double().norm(dim=1)
    except ModelError:  # the logits do not depend on the pixels differentiably
        return torch.zeros(len(x), dtype=torch.double)
