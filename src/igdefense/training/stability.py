"""SODEF's second phase: rest points of the ODE at the features, and stable ones (Lyapunov)."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from igdefense.defenses.rivals.ode import Points

Field = Callable[[Points], Points]
Jacobians = Float[Tensor, "batch width width"]  # [b, k, i] = df_k / dz_i at point b


@dataclass(frozen=True, kw_only=True)
class Stability:
    """The weights of the three regularisers, as published."""

    diagonal: float = 10.0
    dominance: float = 0.0
    rest: float = 0.1

    def loss(self, field: Field, points: Points, some: Float[Tensor, "some width"]) -> Tensor:
        """Over all `points` where the field itself matters, over `some` where its Jacobian does."""
        total = self.rest * rest(field(points))
        if self.diagonal or self.dominance:
            slopes = jacobians(field, some)
            total = total + self.diagonal * negative_diagonal(slopes)
            if self.dominance:  # left out at 0, as 0 times a large exponential is no zero
                total = total + self.dominance * diagonal_dominance(slopes)
        return total


def jacobians(field: Field, points: Points) -> Jacobians:
    """The field's Jacobian at each point; differentiable in the field's parameters."""

    def summed(z: Tensor) -> Tensor:
        return field(z).sum(0)  # the points do not meet in the field

    found: Tensor = torch.func.jacrev(summed)(points)
    return found.transpose(0, 1)


def negative_diagonal(slopes: Jacobians) -> Tensor:
    """mean exp(J_ii + 1): small where every diagonal entry is well below zero."""
    return (torch.diagonal(slopes, dim1=1, dim2=2) + 1).exp().mean()


def diagonal_dominance(slopes: Jacobians) -> Tensor:
    """mean exp(0.1 (sum over k != i of |J_ki| - |J_ii| + 1)): small where the diagonal rules."""
    size = slopes.abs()
    own = torch.diagonal(size, dim1=1, dim2=2)
    return (0.1 * (size.sum(1) - 2 * own + 1)).exp().mean()


def rest(speed: Points) -> Tensor:
    """mean (50 |f(z)|)^2: small where the features are at rest."""
    return (50 * speed.abs()).square().mean()
