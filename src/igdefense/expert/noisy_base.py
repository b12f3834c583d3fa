"""A1, noisy-base transfer: attack the mean of the base model under the defense's noise.

Why: the paper transfers attacks from the noiseless base model only, where averaging over draws
averages one gradient with itself. Points made so lie close behind the boundary of f(x), and a
little noise on the input carries many of them back. The first pass of the defense, which decides
which neurons are kept, is f(x + v), and nothing was ever aimed at it.

What is differentiated: the mean over `samples` fresh v of f(x + v), without the mask, so there is
no temperature that could stop a gradient. The noise is that of the defense; against a defense
without any, it has half the budget as its standard deviation, which makes points that lie deeper.

What it would show: images that fall to it and stood under the plain transfers owed their survival
to the noise alone. They fall for smoothing alone too, and the mask has no part in them.

CE and CW run once, with many noisy copies a step; the run towards one target after another has
fewer, being nine times as long. The images depend on the base model and sigma only, so all
rankings, all `keep` and smoothing alone share them.
"""

from dataclasses import dataclass

from torch import nn

from igdefense.attacks.apgd import APGD, TargetedAPGD
from igdefense.attacks.suites import Budget, Column
from igdefense.attacks.threat import Linf
from igdefense.defenses.smoothing import Smoothed
from igdefense.expert.variants import sigma_of


@dataclass(frozen=True, kw_only=True)
class NoisyBase:
    """The base model under the defense's noise; under noise of `sigma` if the defense has none."""

    sigma: float
    samples: int = 16

    def why_not(self, defense: nn.Module) -> str | None:
        return None

    def __call__(self, defense: nn.Module, base: nn.Module) -> nn.Module:
        return Smoothed(base, sigma=sigma_of(defense) or self.sigma, samples=self.samples)


def columns(threat: Linf, budget: Budget) -> tuple[Column, ...]:
    many = NoisyBase(sigma=threat.eps / 2, samples=budget.noisy_samples)
    few = NoisyBase(sigma=threat.eps / 2, samples=budget.noisy_target_samples)
    once = APGD(threat=threat, loss="ce", steps=budget.steps, best="strict")
    margin = APGD(threat=threat, loss="cw", steps=budget.steps, best="strict")
    targeted = TargetedAPGD(
        threat=threat, loss="cw", steps=budget.steps, targets=budget.targets, best="strict"
    )
    return (
        _column("noisy-ce", once, many),
        _column("noisy-cw", margin, many),
        _column("noisy-t-cw", targeted, few),
    )


def _column(name: str, attack: APGD | TargetedAPGD, surrogate: NoisyBase) -> Column:
    return Column(
        name=name, attack=attack, target="surrogate", surrogate=surrogate, group="expert", rank=1
    )
