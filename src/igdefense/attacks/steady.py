"""Logits that are the same to the last bit in whatever batch an image comes.

Matrix products of few rows are computed by other kernels than those of many, and round differently.
So a small batch is filled up to the fewest rows from which on this model rounds alike, found by
asking it once. On CPUs sixteen have always been enough; on GPUs nothing is known.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from igdefense.types import Images, Logits

ENOUGH = 16
_fewest: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()
Ask = Callable[[Tensor, Tensor], Tensor]  # the images, and which rows of the batch they are


def steady(
    model: nn.Module,
    x: Images,
    keys: Sequence[int] | None = None,
    told: Tensor | None = None,
    shared: Tensor | None = None,
) -> Logits:
    """The model's logits.

    `told` and `shared`, one entry for each image, are for models that take them:
    `model(images, keys, told)` and `model(images, keys, shared=shared)`.
    """
    ask = partial(_ask, model, keys, told, shared)
    if 0 < len(x) < ENOUGH and model not in _fewest:
        _fewest[model] = _probe(ask, x.detach())
    rows = _rows(model, x)
    return ask(filled(model, x), rows)[: len(x)]


def _ask(
    model: nn.Module,
    keys: Sequence[int] | None,
    told: Tensor | None,
    shared: Tensor | None,
    some: Tensor,
    rows: Tensor,
) -> Tensor:
    given: list[Any] = [] if keys is None else [[keys[i] for i in rows.tolist()]]
    if told is not None:
        given = [*(given or [None]), told[rows]]
    more = {} if shared is None else {"shared": shared[rows]}
    return model(some, *given, **more)


def filled(model: nn.Module, x: Images) -> Tensor:
    """The images, some of them again if they are too few, as the model is asked about them."""
    rows = _rows(model, x)
    return _laid_out(x[rows] if len(rows) > len(x) else x)


def _rows(model: nn.Module, x: Images) -> Tensor:
    rows = max(len(x), _fewest.get(model, ENOUGH)) if len(x) else 0
    return torch.arange(rows, device=x.device) % max(len(x), 1)


def _laid_out(x: Tensor) -> Tensor:
    """On CPUs convolutions are faster so, and rounding must not depend on it."""
    return x.contiguous(memory_format=torch.channels_last) if x.device.type == "cpu" else x


def _probe(ask: Ask, x: Images) -> int:
    """The fewest rows from which on logits and gradients have the bits that ENOUGH rows have."""
    rows = torch.arange(ENOUGH, device=x.device) % len(x)
    whole = _bits(ask, x, rows)
    for count in range(ENOUGH - 1, 0, -1):
        part = _bits(ask, x, rows[:count])
        if not all(torch.equal(a, b[:count]) for a, b in zip(part, whole, strict=True)):
            return count + 1
    return 1


@torch.enable_grad()
def _bits(ask: Ask, x: Images, rows: Tensor) -> list[Tensor]:
    some = _laid_out(x[rows]).requires_grad_()
    logits = ask(some, rows)
    if not logits.requires_grad:
        return [logits]
    (gradient,) = torch.autograd.grad(logits.logsumexp(1).sum(), some, allow_unused=True)
    return [logits.detach()] + ([] if gradient is None else [gradient])
