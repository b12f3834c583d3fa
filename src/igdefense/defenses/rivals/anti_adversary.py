"""The anti-adversary (CAAA): step towards the class that is predicted anyway, then predict."""

from typing import Any

import torch
import torch.nn.functional as F
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
from igdefense.models.fingerprint import hash_text, identity
from igdefense.types import Images, Labels, Logits


class AntiAdversary(nn.Module):
    """Signed steps that lower the loss of the predicted class (Alfarra et al., arXiv:2103.14347).

    As described, the change is neither projected nor clamped; with `eps`, it is kept within ±eps
    and the pixels in [0, 1]. Four forward and two backward passes with the default two steps.

    What an attack's gradient is: `around` takes the steps for the identity (BPDA), so it is the
    gradient of the base model at the end point, as in the authors' code. `through` differentiates
    every step, second derivatives of the base model included, with slope / mean |slope| in place
    of the sign, whose derivative is zero; the predicted class is a constant to both.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        steps: int = 2,
        step: float = 0.15,
        eps: float | None = None,
        gradient: Gradient = "around",
    ) -> None:
        super().__init__()
        check_frozen(model)
        check_gradient(gradient)
        check_steps(steps, step, eps)
        self.model, self.gradient = model, gradient
        self.steps, self.step, self.eps = steps, step, eps
        self.eval()

    def forward(self, images: Images) -> Logits:
        with torch.no_grad():
            guess = self.model(images).argmax(1)

        def gain(logits: Logits) -> Gains:
            return likelihood(logits, guess)

        def again(images: Images, x: Images) -> Images:
            return differentiable_step(self.model, gain, images, x, self.step, self.eps)

        x = images
        for _ in range(self.steps):
            _, slope = logits_and_slope(self.model, gain, x)
            end = moved(x.detach(), slope, images.detach(), self.step, self.eps)
            x = later(end, again, images, x) if self.gradient == "through" else end
        return self.model(later(x, unchanged, images) if self.gradient == "around" else x)

    @property
    def settings(self) -> dict[str, Any]:
        """Everything but the model."""
        return {name: getattr(self, name) for name in ("steps", "step", "eps", "gradient")}

    def identity(self) -> str:
        """Names the defense: its base model and its settings."""
        return hash_text(type(self).__name__, identity(self.model), sorted(self.settings.items()))

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.settings.items())


def likelihood(logits: Logits, labels: Labels) -> Gains:
    """Minus the cross-entropy of each image's label."""
    return -F.cross_entropy(logits, labels, reduction="none")
