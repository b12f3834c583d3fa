"""Signed gradient steps inside a defense, and what an attack's gradient makes of them."""

from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from igdefense.errors import ModelError, SettingError
from igdefense.types import Images, Logits

Gradient = Literal["around", "through"]
Gains = Float[Tensor, " batch"]  # what a step increases, for each image
Gain = Callable[[Logits], Gains]


def check_gradient(gradient: str) -> None:
    """Refuse a word that is no way of differentiating a rival."""
    if gradient not in get_args(Gradient):
        raise SettingError(f"gradient = {gradient!r}; expected {' or '.join(get_args(Gradient))}.")


def check_steps(steps: int, step: float, eps: float | None) -> None:
    """Refuse settings that are no walk of signed steps."""
    if steps < 1:
        raise SettingError(f"steps = {steps}; the inner loop needs at least 1.")
    if not step > 0:
        raise SettingError(f"step = {step:g}; expected a positive length in pixel units.")
    if eps is not None and not 0 < eps <= 1:
        raise SettingError(f"eps = {eps:g} is outside (0, 1]; it is in pixel units: write 8/255.")


def check_frozen(model: nn.Module) -> None:
    """Refuse a base model in train mode."""
    if model.training:
        raise ModelError("The model is in train mode; call model.eval() before defending it.")


def logits_and_slope(model: nn.Module, gain: Gain, x: Images) -> tuple[Logits, Images]:
    """The logits and the gradient of each image's gain, even under no_grad; no graph is left."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        logits: Tensor = model(x)
        (slope,) = torch.autograd.grad(gain(logits).sum(), x)
    return logits.detach(), slope


def moved(x: Images, slope: Images, images: Images, step: float, eps: float | None) -> Images:
    """One signed step up the slope; with `eps`, back into the box around the image and [0, 1]."""
    x = x + step * _Sign.apply(slope)  # type: ignore[no-untyped-call]
    return x if eps is None else x.clamp(images - eps, images + eps).clamp(0, 1)


def differentiable_step(
    model: nn.Module, gain: Gain, images: Images, x: Images, step: float, eps: float | None
) -> Images:
    """As `logits_and_slope` and `moved`, with a graph through the inner gradient."""
    with sdpa_kernel(SDPBackend.MATH):  # the other attention kernels have no second derivative
        (slope,) = torch.autograd.grad(gain(model(x)).sum(), x, create_graph=True)
    return moved(x, slope, images, step, eps)


def later(value: Tensor, function: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """`value`, which is `function(*inputs)`; the function is differentiated when it is asked for.

    The function runs again in the backward pass, so that no more than one step's graph is in
    memory at a time. Only the inputs get gradients, never the parameters inside the function.
    """
    result: Tensor = _Later.apply(value, function, *inputs)  # type: ignore[no-untyped-call]
    return result


def unchanged(value: Tensor) -> Tensor:
    """The identity, which BPDA takes for the inner loop in the backward pass."""
    return value.clone()


class _Later(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, value: Tensor, function: Callable[..., Tensor], *inputs: Tensor
    ) -> Tensor:
        ctx.function = function
        ctx.save_for_backward(*inputs)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        with torch.enable_grad():
            inputs = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
            value = ctx.function(*inputs)
        given = torch.autograd.grad(value, inputs, gradients[0], materialize_grads=True)
        return None, None, *given


class _Sign(torch.autograd.Function):
    """The sign; its derivative is that of slope / mean |slope|, each image's mean held fixed."""

    @staticmethod
    def forward(ctx: Any, slope: Tensor) -> Tensor:
        ctx.save_for_backward(slope)
        return slope.sign()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (slope,) = ctx.saved_tensors
        size = slope.abs().mean(dim=tuple(range(1, slope.ndim)), keepdim=True)
        return torch.where(size > 0, gradients[0] / size, 0)
