"""What a recipe is: a batch becomes a loss, as a function of the model."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from igdefense.attacks.threat import Linf
from igdefense.errors import SettingError
from igdefense.types import Images, Labels, Logits

Objective = Callable[[nn.Module], Tensor]  # the batch's loss, on points that are already made


@dataclass(frozen=True)
class Step:
    """Where in the training a batch is."""

    number: int = 0
    progress: float = 0.0  # 0 to 1


@runtime_checkable
class Recipe(Protocol):
    """Attacks a batch, and says what the model should lose there; the loop does the rest."""

    @property
    def eps(self) -> float: ...

    def objective(
        self, model: nn.Module, images: Images, labels: Labels, step: Step, rng: Generator
    ) -> Objective: ...


@runtime_checkable
class Stateful(Protocol):
    """A recipe that learns, too: what it has learned goes into the checkpoint."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True, kw_only=True)
class LinfRecipe:
    """What the recipes share: an L-inf budget in pixel units, and smoothed labels."""

    eps: float = 8 / 255
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        Linf(self.eps)
        if not 0 <= self.smoothing < 1:
            raise SettingError(f"smoothing = {self.smoothing:g} is outside [0, 1).")

    def cross_entropy(self, logits: Logits, labels: Labels) -> Tensor:
        return F.cross_entropy(logits, labels, label_smoothing=self.smoothing)


@dataclass(frozen=True, kw_only=True)
class MultiStep(LinfRecipe):
    """A recipe whose attack takes several steps."""

    steps: int = 10
    step: float = 0.25  # in units of eps

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps < 1:
            raise SettingError(f"steps = {self.steps}; an attack takes at least 1.")


def ascend(
    start: Images,
    images: Images,
    loss: Callable[[Images], Tensor],
    *,
    eps: float | Tensor,
    step: float | Tensor,
    steps: int,
) -> Images:
    """Signed gradient ascent on the loss, inside the L-inf ball and the pixel box."""
    x = within(start, images, eps)
    for _ in range(steps):
        x.requires_grad_()
        (gradient,) = torch.autograd.grad(loss(x), x)
        x = within(x.detach() + step * gradient.sign(), images, eps)
    return x


def within(x: Images, images: Images, eps: float | Tensor) -> Images:
    """The nearest point of the L-inf ball and the pixel box."""
    return torch.min(torch.max(x, images - eps), images + eps).clamp(0, 1).detach()


def uniform(images: Images, size: float, rng: Generator) -> Tensor:
    """Noise from -size to size, drawn on the CPU as everything is."""
    return torch.empty(images.shape).uniform_(-size, size, generator=rng).to(images)


def corners(images: Images, size: float, rng: Generator) -> Tensor:
    """Noise of -size or size."""
    signs = torch.randint(2, images.shape, generator=rng)
    return (size * (2 * signs - 1)).to(images)


def kl(clean: Logits, attacked: Logits) -> Tensor:
    """How far the attacked images' probabilities are from the clean ones', mean over images."""
    return F.kl_div(attacked.log_softmax(1), clean.softmax(1), reduction="batchmean")


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Inside the block batch norm uses its running statistics and leaves them alone."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
