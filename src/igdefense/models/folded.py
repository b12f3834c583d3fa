"""A copy of a model that computes the same logits with less work, for attacks to query."""

import copy
import logging
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, fx, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from igdefense.types import Images, Logits

log = logging.getLogger(__name__)
CLOSE = 1e-3  # of the spread of the logits: what rounding may change
_made: WeakKeyDictionary[nn.Module, nn.Module] = WeakKeyDictionary()


def quicker(model: nn.Module, images: Images) -> nn.Module:
    """The model's folded copy, made once, or the model itself where the copy disagrees."""
    if model not in _made:
        copied = folded(model)
        same = copied is not model and _agree(model, copied, images[:2])
        if copied is not model and not same:
            log.info("%s does not survive folding its batch norms.", type(model).__name__)
        _made[model] = copied if same else model
    return _made[model]


def folded(model: nn.Module) -> nn.Module:
    """A copy whose batch norms are part of the convolutions before them; modules keep their names.

    Where a forward method cannot be traced, its children are tried, so that the base model inside
    a defense is folded too. A model without such a pair is returned as it is.
    """
    pairs = _pairs(model)
    if not pairs:
        return model
    out = copy.deepcopy(model)
    for conv, norm in pairs:
        _fold(out, conv, norm)
    cpu = all(tensor.device.type == "cpu" for tensor in out.parameters())
    return out.to(memory_format=torch.channels_last) if cpu else out  # type: ignore[call-overload]


def _pairs(model: nn.Module, prefix: str = "") -> list[tuple[str, str]]:
    """The names of the convolutions whose output goes to a batch norm and nowhere else."""
    try:
        graph = fx.Tracer().trace(model)
    except Exception:  # whatever a forward method does when it meets a symbolic value
        children = model.named_children()
        return [pair for name, child in children for pair in _pairs(child, f"{prefix}{name}.")]
    modules = dict(model.named_modules(remove_duplicate=False))
    calls = [node for node in graph.nodes if node.op == "call_module"]
    times: dict[int, int] = {}
    for node in calls:
        times[id(modules[node.target])] = times.get(id(modules[node.target]), 0) + 1
    watched = _watched(model)
    pairs = []
    for node in calls:
        before = node.args[0] if node.args else None
        if not (isinstance(before, fx.Node) and before.op == "call_module"):
            continue
        conv, norm = modules[str(before.target)], modules[node.target]
        once = len(before.users) == 1 and times[id(conv)] == times[id(norm)] == 1
        plain = type(conv) is nn.Conv2d and type(norm) is nn.BatchNorm2d and not norm.training
        if once and plain and norm.running_var is not None and conv not in watched:
            pairs.append((f"{prefix}{before.target}", f"{prefix}{node.target}"))
    return pairs


def _watched(model: nn.Module) -> set[nn.Module]:
    """Modules with hooks, which may read their output or make their weights."""
    return {m for m in model.modules() if m._forward_hooks or m._forward_pre_hooks}


def _fold(model: nn.Module, conv: str, norm: str) -> None:
    old, bn = model.get_submodule(conv), model.get_submodule(norm)
    assert isinstance(old, nn.Conv2d)
    assert isinstance(bn, nn.BatchNorm2d)
    assert isinstance(bn.running_mean, Tensor)
    assert isinstance(bn.running_var, Tensor)
    weight, bias = fuse_conv_bn_weights(
        old.weight, old.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    old.weight, old.bias = weight, bias
    parent, _, name = norm.rpartition(".")
    model.get_submodule(parent).register_module(name, nn.Identity())


@torch.no_grad()
def _agree(model: nn.Module, other: nn.Module, images: Images) -> bool:
    keys = list(range(len(images))) if getattr(model, "random", False) else None

    def logits(net: nn.Module) -> Logits:
        return net(images) if keys is None else net(images, keys)

    a, b = logits(model), logits(other)
    return torch.allclose(a, b, rtol=0, atol=CLOSE * float(a.max() - a.min() + 1e-6))
