"""A tiny net, a tiny problem, and a slow attack written out image by image."""

from collections.abc import Callable

import torch
from torch import Generator, Tensor, nn

CLASSES = 3


def tiny_net(seed: int = 0) -> nn.Module:
    """Smooth, and without batch norm: train and eval mode agree."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Flatten(), nn.Linear(48, 8), nn.Tanh(), nn.Linear(8, CLASSES)
        ).train()


def tiny_batch() -> tuple[Tensor, Tensor]:
    images = torch.rand(6, 3, 4, 4, generator=Generator().manual_seed(1))
    return images, torch.tensor([0, 1, 2, 2, 1, 0])


def climbed(
    start: Tensor,
    images: Tensor,
    loss: Callable[[Tensor], Tensor],
    eps: float,
    step: float,
    steps: int,
) -> Tensor:
    """Signed steps of the whole batch, clipped to the ball and to the pixels."""
    x = (images + (start - images).clamp(-eps, eps)).clamp(0, 1)
    for _ in range(steps):
        x = x.clone().requires_grad_()
        loss(x).backward()
        assert x.grad is not None
        moved = x.detach() + step * x.grad.sign()
        x = (images + (moved - images).clamp(-eps, eps)).clamp(0, 1)
    return x


def entropy(net: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy by its definition."""
    logs = net(x) - net(x).exp().sum(1, keepdim=True).log()
    return -logs[torch.arange(len(labels)), labels].mean()


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """KL(p || q) of probabilities, mean over rows."""
    return (p * (p.log() - q.log())).sum(1).mean()
