"""Split a model at a layer, f = h ∘ A, so that what comes before the layer is computed once."""

import inspect
import logging
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from igdefense.layers import (
    LAST,
    as_it_was,
    channels_first,
    check_layer,
    find,
    run_after,
    run_before,
)
from igdefense.types import Activations, Images, Logits

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Cut:
    """A layer's output together with the other values that flow around the layer."""

    activations: Tensor
    carried: tuple[Any, ...]


State = Tensor | Cut


class Split:
    """`before` is A, up to and with the layer; `after` is h, the rest: f(x) = after(before(x)).

    Where nothing but the layer's output reaches the rest of the model, `separate` is true, the
    state between the two is that output, and any part of a batch can be continued by itself.
    Otherwise (a layer inside a residual branch) the state is a `Cut`. Models that cannot be traced
    are run with hooks: same numbers, but `after` then repeats what comes before.
    """

    def __init__(self, model: nn.Module, layer: str) -> None:
        find(model, layer)
        self.model, self.layer = model, layer
        self._graphs = _trace(model, layer)
        self._verified = False

    def __repr__(self) -> str:
        how = "hooks" if self._graphs is None else "separate" if self.separate else "traced"
        return f"Split({type(self.model).__name__} at {self.layer!r}, {how})"

    @property
    def traced(self) -> bool:
        return self._graphs is not None

    @property
    def separate(self) -> bool:
        return self._graphs is not None and self._graphs.carried == 0

    @property
    def affine(self) -> bool:
        """Whether `after` is known to be an affine function of the activations."""
        return self._graphs is not None and self.separate and _is_affine(self.model, self._graphs)

    def before(self, images: Images) -> State:
        """A(x): the layer's output, or a `Cut` that holds it."""
        if not self._verified:
            self._verify(images[:2])
        if self._graphs is None:
            return Cut(run_before(self.model, self.layer, images), (images,))
        output, *carried = self._graphs.run_before(self.model, images)
        activations = channels_first(output, self.layer)
        return activations if self.separate else Cut(activations, tuple(carried))

    def after(self, state: State) -> Logits:
        """h(a): the logits. The state is left as it was, even if the model works in place."""
        return self.resume(_cloned(state))

    def resume(self, state: State) -> Logits:
        """As `after`, for a state that is not needed again: the model may overwrite it."""
        if self._graphs is None:
            assert isinstance(state, Cut)
            return run_after(self.model, self.layer, state.carried[0], state.activations)
        carried = state.carried if isinstance(state, Cut) else ()
        output = as_it_was(activations_of(state), self.layer)
        logits: Tensor = self._graphs.run_after(self.model, (output, *carried))
        return logits

    def _verify(self, images: Images) -> None:
        """Compare with the model itself once: tracing freezes what Python decided while it ran."""
        self._verified = True
        activations, logits = check_layer(self.model, self.layer, images)
        if self._graphs is None:
            return
        with torch.no_grad():
            state = self.before(images)
            same = _close(activations_of(state), activations) and _close(self.after(state), logits)
        if not same:
            log.warning(
                "%s behaves differently when traced; using hooks at %r (slower, same numbers).",
                type(self.model).__name__,
                self.layer,
            )
            self._graphs = None


def split(model: nn.Module, layer: str) -> Split:
    """The model in two parts, `.before` and `.after` that layer."""
    return Split(model, layer)


def activations_of(state: State) -> Activations:
    """The layer's output inside a state."""
    return state.activations if isinstance(state, Cut) else state


def with_activations(state: State, activations: Activations) -> State:
    """The same state with another output of the layer."""
    return Cut(activations, state.carried) if isinstance(state, Cut) else activations


def detached(state: State) -> State:
    """A copy of the state through which no gradient flows."""
    copy = _cloned(state)
    if isinstance(copy, Tensor):
        return copy.detach()
    carried = (value.detach() if isinstance(value, Tensor) else value for value in copy.carried)
    return Cut(copy.activations.detach(), tuple(carried))


def _cloned(state: State) -> State:
    if isinstance(state, Tensor):
        return state.clone()
    carried = (value.clone() if isinstance(value, Tensor) else value for value in state.carried)
    return Cut(state.activations.clone(), tuple(carried))


def _close(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, rtol=1e-4, atol=1e-5)


@dataclass(frozen=True, eq=False)
class _Graphs:
    """The traced forward pass, cut after the layer."""

    before: fx.Graph
    after: fx.Graph
    carried: int
    extra: tuple[Any, ...]  # defaults of the forward method's other arguments

    @cached_property
    def _code(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        return _function(self.before), _function(self.after)

    def run_before(self, model: nn.Module, images: Images) -> tuple[Any, ...]:
        values: tuple[Any, ...] = self._code[0](model, images, *self.extra)
        return values

    def run_after(self, model: nn.Module, values: tuple[Any, ...]) -> Any:
        return self._code[1](model, *values)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_code"}


def _function(graph: fx.Graph) -> Callable[..., Any]:
    """The graph as a function of the model and its inputs.

    It looks the modules up in the model at each call, so it sees what was replaced since, and
    costs nothing beside them: an `fx.Interpreter` is felt at batch 1.
    """
    code = graph.python_code("self")
    names = dict(code.globals)
    exec(code.src, names)  # how fx.GraphModule makes its forward method
    function: Callable[..., Any] = names["forward"]
    return function


class _Tracer(fx.Tracer):
    """Looks only into the modules around the layer; every other module stays one call."""

    def __init__(self, layer: str, model: nn.Module) -> None:
        super().__init__()
        parts = layer.removesuffix(LAST).split(".")
        self.around = [find(model, ".".join(parts[:end])) for end in range(1, len(parts))]

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return not any(m is module for module in self.around)


def _trace(model: nn.Module, layer: str) -> _Graphs | None:
    parameters = list(inspect.signature(model.forward).parameters.values())[1:]
    defaults = {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
    try:
        graph = _Tracer(layer, model).trace(model, concrete_args=defaults or None)
        return _cut(model, graph, layer, tuple(defaults.values()))
    except Exception as error:  # whatever a forward method does when it meets a symbolic value
        log.info(
            "%s cannot be traced (%s: %s); using hooks at %r (slower, same numbers).",
            type(model).__name__,
            type(error).__name__,
            str(error).split("\n")[0],
            layer,
        )
        return None


def _cut(model: nn.Module, graph: fx.Graph, layer: str, extra: tuple[Any, ...]) -> _Graphs | None:
    module = find(model, layer)
    calls = [n for n in graph.nodes if n.op == "call_module" and find(model, n.target) is module]
    if len(calls) != 1:
        return None  # the check on real images says what is wrong
    (node,) = calls
    later = {node}
    for other in graph.nodes:
        if any(source in later for source in other.all_input_nodes):
            later.add(other)
    rest = [n for n in graph.nodes if n in later and n is not node]
    needed = {source for n in rest for source in n.all_input_nodes} - later
    constants = [n for n in graph.nodes if n in needed and n.op == "get_attr"]
    carried = [n for n in graph.nodes if n in needed and n.op != "get_attr"]

    before, after = fx.Graph(), fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for n in graph.nodes:
        if (n not in later or n is node) and n.op != "output":
            copies[n] = before.node_copy(n, copies.__getitem__)
    before.output(tuple(copies[n] for n in (node, *carried)))
    copies = {n: after.placeholder(n.name) for n in (node, *carried)}
    for n in graph.nodes:
        if n in rest or n in constants:
            copies[n] = after.node_copy(n, copies.__getitem__)
    return _Graphs(before, after, len(carried), extra)


AFFINE_MODULES = (
    nn.Linear,
    nn.Identity,
    nn.Flatten,
    nn.AdaptiveAvgPool1d,
    nn.AdaptiveAvgPool2d,
    nn.AvgPool1d,
    nn.AvgPool2d,
    nn.Dropout,
    nn.Dropout2d,
    nn.BatchNorm1d,
    nn.BatchNorm2d,
    nn.Conv2d,
)
AFFINE_FUNCTIONS = (
    torch.flatten,
    torch.mean,
    torch.squeeze,
    torch.reshape,
    F.adaptive_avg_pool2d,
    F.adaptive_avg_pool1d,
    F.avg_pool2d,
    F.linear,
    operator.getitem,
    getattr,
)
AFFINE_METHODS = ("flatten", "mean", "view", "reshape", "squeeze", "size", "permute", "transpose")


def _is_affine(model: nn.Module, graphs: _Graphs) -> bool:
    """A whitelist, for eval mode: what is not known to be affine is treated as if it were not."""

    def affine(module: nn.Module) -> bool:
        if type(module) is nn.Sequential:
            return all(map(affine, module))
        return type(module) in AFFINE_MODULES

    for node in graphs.after.nodes:
        if node.op == "call_module" and not affine(find(model, node.target)):
            return False
        if node.op == "call_function" and node.target not in AFFINE_FUNCTIONS:
            return False
        if node.op == "call_method" and node.target not in AFFINE_METHODS:
            return False
        if node.op == "get_attr":
            return False
    return True
