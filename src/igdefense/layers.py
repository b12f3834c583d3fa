"""Find, read and edit a layer by its name; split a model there, f = h ∘ A. All hooks live here.

A 4-D output has its neurons on axis 1. Where a model keeps them on the last axis (Swin, some
ConvNeXts) the layer is named with `@nhwc`, `layers.3@nhwc`: its output is then seen with the
neurons on axis 1 by everything here, and turned back for the model.
"""

import difflib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from igdefense.errors import LayerError, LayerNotFoundError
from igdefense.types import Activations, Images, Logits

log = logging.getLogger(__name__)
Edit = Callable[[Tensor], Tensor]
LAST = "@nhwc"


@dataclass(frozen=True)
class Layer:
    """A layer that can be ranked and masked."""

    name: str
    shape: tuple[int, ...]  # of its output for one image
    neurons: int
    kind: str  # the module's class

    def __str__(self) -> str:
        shape = " x ".join(map(str, self.shape))
        return f"{self.name}: {shape}, {self.neurons} neurons ({self.kind})"


def layers(model: nn.Module, images: Images) -> list[Layer]:
    """Every layer whose one output is a tensor with neurons, in the order the model calls them."""
    found: dict[str, list[Any]] = {}
    for call in calls(model, images[:1])[0]:
        found.setdefault(call.name, []).append(call.output)
    listed = []
    for name, (out, *more) in found.items():
        if more or _complaint(out) is not None or len(out) != 1:
            continue
        known = f"{name}{LAST}" if _looks_last(out) else name
        neurons = neurons_of(channels_first(out, known))
        listed.append(Layer(known, tuple(out.shape[1:]), neurons, type(find(model, name)).__name__))
    return listed


@dataclass(frozen=True, eq=False)
class Call:
    """A module's call in a forward pass; tensors are copies, as in-place work may follow."""

    name: str
    module: nn.Module
    input: Any
    output: Any


@torch.no_grad()
def calls(model: nn.Module, images: Images) -> tuple[list[Call], Logits]:
    """Every call of a submodule, in the order in which they end, and what the model returns."""
    made: list[Call] = []
    names = {module: name for name, module in model.named_modules() if name}
    inputs: dict[nn.Module, Any] = {}

    def begin(module: nn.Module, given: tuple[Any, ...]) -> None:
        inputs[module] = _copied(given[0]) if given else None

    def end(module: nn.Module, _: object, output: object) -> None:
        made.append(Call(names[module], module, inputs.pop(module, None), _copied(output)))

    handles = [module.register_forward_pre_hook(begin) for module in names]
    handles += [module.register_forward_hook(end) for module in names]
    try:
        logits: Tensor = model(images)
    finally:
        for handle in handles:
            handle.remove()
    return made, logits


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def find(model: nn.Module, layer: str) -> nn.Module:
    """The submodule of that dotted name."""
    modules = dict(model.named_modules(remove_duplicate=False))
    modules.pop("", None)
    layer = layer.removesuffix(LAST)
    if layer in modules:
        return modules[layer]
    close = difflib.get_close_matches(layer, modules, n=3, cutoff=0.4)
    close += [name for name in modules if name.endswith(f".{layer}") and name not in close]
    hint = f" Did you mean {', '.join(close[:3])}?" if close else ""
    raise LayerNotFoundError(
        f"{type(model).__name__} has no layer {layer!r}.{hint} "
        f"`igd layers` lists those that can be ranked ({len(modules)} submodules in all)."
    )


def neurons_of(activations: Tensor) -> int:
    """How many neurons an output has."""
    return activations.shape[neuron_axis(activations)]


def neuron_axis(activations: Tensor) -> int:
    """Axis 1 of a 2-D or 4-D output, the last axis of a 3-D (token) output."""
    return 2 if activations.ndim == 3 else 1


def scale_neurons(activations: Activations, mask: Tensor) -> Activations:
    """Each neuron of each image times its entry of `mask` (images x neurons)."""
    if activations.ndim == 3:
        return activations * mask[:, None, :]
    return activations * mask.reshape(*mask.shape, *[1] * (activations.ndim - 2))


def channels_first(output: Tensor, layer: str) -> Tensor:
    """The output with its neurons where they are looked for; only `@nhwc` moves them."""
    if not layer.endswith(LAST):
        return output
    if output.ndim != 4:
        raise LayerError(
            f"{layer!r}: {LAST} is for 4-D outputs, but this one has {output.ndim} axes; "
            f"name it {layer.removesuffix(LAST)!r}."
        )
    return output.movedim(3, 1)


def as_it_was(activations: Tensor, layer: str) -> Tensor:
    """The inverse of `channels_first`."""
    return activations.movedim(1, 3) if layer.endswith(LAST) else activations


def _looks_last(output: Tensor) -> bool:
    """Height, width, channels: two equal axes before another; of a square image, that is."""
    return output.ndim == 4 and output.shape[1] == output.shape[2] != output.shape[3]


@contextmanager
def edited(model: nn.Module, layer: str, edit: Edit) -> Iterator[None]:
    """Inside the block the layer's output is what `edit` makes of it."""
    calls = 0

    def hook(_: nn.Module, __: object, output: object) -> Tensor:
        nonlocal calls
        calls += 1
        seen = channels_first(checked(output, layer, calls), layer)
        return as_it_was(edit(seen), layer)

    handle = find(model, layer).register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def reading(model: nn.Module, layer: str) -> Iterator[list[Tensor]]:
    """Inside the block, a copy of the layer's output is appended to the list at each forward."""
    outputs: list[Tensor] = []

    def keep(output: Tensor) -> Tensor:
        outputs.append(output.clone())  # an in-place activation may follow
        return output

    with edited(model, layer, keep):
        yield outputs


def watched(model: nn.Module) -> bool:
    """Whether anything reads or changes what the model's modules compute."""
    return any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def run_before(model: nn.Module, layer: str, images: Images) -> Activations:
    """The layer's output, stopping the forward pass there."""

    class _Reached(Exception):  # noqa: N818
        pass

    outputs: list[Tensor] = []

    def stop(output: Tensor) -> Tensor:
        outputs.append(output.clone())
        raise _Reached

    with edited(model, layer, stop):
        try:
            model(images)
        except _Reached:
            return outputs[0]
    raise LayerError(f"{layer!r} is not called when {type(model).__name__} runs.")


def run_after(model: nn.Module, layer: str, images: Images, activations: Activations) -> Logits:
    """The whole model on `images`, with the layer's output replaced."""
    with edited(model, layer, lambda _: activations):
        logits: Tensor = model(images)
    return logits


def check_layer(model: nn.Module, layer: str, images: Images) -> tuple[Activations, Logits]:
    """The layer's output and the logits, or an error that says why the layer cannot be used."""
    with reading(model, layer) as outputs, torch.no_grad():
        logits: Tensor = model(images)
    if not outputs:
        raise LayerError(f"{layer!r} is not called when {type(model).__name__} runs.")
    if len(outputs[0]) != len(images):
        raise LayerError(
            f"{layer!r} returns {len(outputs[0])} rows for {len(images)} images (windows of them, "
            "say), so its neurons cannot be masked image by image: choose the module around it."
        )
    if _looks_last(outputs[0]) and not layer.endswith(LAST):
        log.warning(
            "The output of %r is %s: if its neurons are on the last axis, name it %r.",
            *(layer, " x ".join(map(str, outputs[0].shape[1:])), f"{layer}{LAST}"),
        )
    return outputs[0], logits


def checked(output: object, layer: str, calls: int = 1) -> Tensor:
    """The output as a tensor with neurons, or an error."""
    if calls > 1:
        raise LayerError(
            f"{layer!r} is called more than once in a forward pass, so its neurons have no single "
            "output. Choose the module around it."
        )
    complaint = _complaint(output)
    if complaint or not isinstance(output, Tensor):
        raise LayerError(f"{layer!r} {complaint}. Choose another layer; `igd layers` lists them.")
    return output


def _complaint(output: object) -> str | None:
    if not isinstance(output, Tensor):
        return f"returns a {type(output).__name__}, not one tensor"
    if not output.is_floating_point():
        return f"returns {output.dtype}, not floating-point activations"
    if output.ndim not in (2, 3, 4):
        return f"returns a {output.ndim}-D tensor; neurons need 2, 3 or 4 axes"
    return None
