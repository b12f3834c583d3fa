"""A8, rescaled cross-entropy: a softmax that never saturates.

Why: the cross-entropy of a confident network underflows: once the right class leads by some
twenty, softmax is 1 in single precision and the gradient is rounding noise. Defenses that sharpen
or enlarge their logits profit from this without being any more robust.

What is differentiated: the cross-entropy of the logits divided by the gap between the two largest,
taken for a constant; points are compared by their margin. Averaged over a few draws.

`rescaled-ce-fp64` is the same attack on the same defense computed in double precision, where a
softmax is 1 at a lead of 37 instead of 17 and rounding inside the network is gone. Its points are
judged by the defense as deployed, in its own precision.

What it would show: images that fall here and stood under the plain cross-entropy stood by rounding;
if only the second breaks them, it was the rounding inside the network. It works for any defense
whose code follows the type of its input.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor, nn

from igdefense.attacks.apgd import APGD
from igdefense.attacks.suites import Budget, Column
from igdefense.attacks.threat import Linf
from igdefense.models.fingerprint import hash_text, identity
from igdefense.randomness import Key
from igdefense.types import Images, Logits


class Doubled(nn.Module):
    """A copy of a defense that computes in double precision; its draws are the same."""

    def __init__(self, defense: nn.Module) -> None:
        super().__init__()
        self.of = identity(defense)
        self.random = bool(getattr(defense, "random", False))
        self.defense = copy.deepcopy(defense).double()

    def shared(self, images: Images) -> Tensor | None:
        common = getattr(self.defense, "shared", None)
        found: Tensor | None = common(images.double()) if common is not None else None
        return found

    def forward(
        self, images: Images, keys: Sequence[Key] | None = None, shared: Tensor | None = None
    ) -> Logits:
        given = {} if shared is None else {"shared": shared}
        return self.defense(images.double(), *([keys] if self.random else []), **given)

    def identity(self) -> str:
        return hash_text(type(self).__name__, self.of)


@dataclass(frozen=True)
class DoublePrecision:
    """The defense in double precision."""

    def why_not(self, defense: nn.Module) -> str | None:
        return None

    def __call__(self, defense: nn.Module, base: nn.Module) -> nn.Module:
        return Doubled(defense)


def columns(threat: Linf, budget: Budget) -> tuple[Column, ...]:
    attack = APGD(threat=threat, loss="ce-rescaled", steps=budget.steps, best="strict")
    plain = Column(
        name="rescaled-ce",
        attack=attack,
        samples=budget.expert_draws,
        group="expert",
        rank=5,
    )
    double = replace(
        plain, name="rescaled-ce-fp64", target="surrogate", surrogate=DoublePrecision()
    )
    return (plain, double)
