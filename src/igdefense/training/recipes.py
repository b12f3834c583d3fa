"""What makes each adversarial training recipe different: its loss on one batch."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from igdefense.types import Images, Labels


@runtime_checkable
class Recipe(Protocol):
    """A recipe turns a batch into a loss; the loop does the rest."""

    @property
    def eps(self) -> float: ...

    def loss(self, model: nn.Module, images: Images, labels: Labels, rng: Generator) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class FAT:
    """Fast adversarial training: one FGSM step from a random start (arXiv:2001.03994)."""

    eps: float = 8 / 255
    step: float = 10 / 255

    def loss(self, model: nn.Module, images: Images, labels: Labels, rng: Generator) -> Tensor:
        start = torch.empty(images.shape).uniform_(-self.eps, self.eps, generator=rng)
        delta = start.to(images).requires_grad_()
        loss = F.cross_entropy(model(images + delta), labels)
        (gradient,) = torch.autograd.grad(loss, delta)
        delta = (delta.detach() + self.step * gradient.sign()).clamp(-self.eps, self.eps)
        return F.cross_entropy(model((images + delta).clamp(0, 1)), labels)


RECIPES: dict[str, type[FAT]] = {"fat": FAT}
