"""SODEF: a stable differential equation between a classifier's features and its classes."""

from typing import Any

import torch
from torch import Tensor, nn

from igdefense.defenses.rivals.head import Features, Head
from igdefense.defenses.rivals.inner import Gradient, check_frozen, check_gradient
from igdefense.defenses.rivals.ode import Solver, check_solver
from igdefense.errors import ModelError
from igdefense.layers import neuron_axis
from igdefense.models.fingerprint import hash_text, identity, weights_fingerprint
from igdefense.split import Split, activations_of, split
from igdefense.types import Activations, Images, Logits


class SODEF(nn.Module):
    """A base model up to its features, and a trained head (Kang et al., arXiv:2110.12976).

    What an attack's gradient is: `through` (the default, for it is exact) differentiates the steps
    of the ODE solver. `around` takes the ODE for the identity (BPDA): the gradient of the last
    layer goes straight to the projected features, should a stable ODE make its own vanish.
    """

    def __init__(
        self,
        model: nn.Module,
        head: Head,
        *,
        solver: Solver = "rk4",
        gradient: Gradient = "through",
    ) -> None:
        super().__init__()
        check_frozen(model)
        check_gradient(gradient)
        check_solver(solver)
        head.check_belongs(model)
        self.model, self.head, self.solver, self.gradient = model, head, solver, gradient
        self._split: Split | None = None
        self._split_at()
        self.eval()

    def forward(self, images: Images) -> Logits:
        features = pooled(activations_of(self._split_at().before(images)))
        if features.shape[1] != self.head.features:
            raise ModelError(
                f"{self.head.layer!r} has {features.shape[1]} features; "
                f"the head was trained on {self.head.features}."
            )
        if self.gradient == "around":
            return self.head.around(features, self.solver)
        return self.head(features, self.solver)

    def _split_at(self) -> Split:
        if self._split is None:
            self._split = split(self.model, self.head.layer)
        return self._split

    @property
    def settings(self) -> dict[str, Any]:
        """Everything but the model and the head."""
        return {"solver": self.solver, "gradient": self.gradient}

    def identity(self) -> str:
        """Names the defense: its base model, its head and its settings."""
        parts = (identity(self.model), weights_fingerprint(self.head), self.head.layer)
        return hash_text(type(self).__name__, *parts, sorted(self.settings.items()))

    def extra_repr(self) -> str:
        return f"solver={self.solver!r}, gradient={self.gradient!r}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_split": None}  # made again where it is needed


def pooled(activations: Activations) -> Features:
    """One number for each neuron: its mean over the places or tokens of the layer."""
    axis = neuron_axis(activations)
    places = [i for i in range(1, activations.ndim) if i != axis]
    return activations.mean(places) if places else activations


@torch.no_grad()
def features_of(parts: Split, images: Images) -> Tensor:
    """The pooled activations at the layer."""
    return pooled(activations_of(parts.before(images)))
