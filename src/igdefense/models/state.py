"""Weights by name: taken out of what training scripts save, and fitted to a model, every key."""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from igdefense.errors import ModelError

log = logging.getLogger(__name__)
State = dict[str, Tensor]

WRAPPERS = (
    *("state_dict", "model_state_dict", "model_state", "model", "net", "network", "weights"),
    *("params", "model_ema", "ema_state_dict", "ema", "state_dict_ema"),
)


def unwrap(content: Mapping[str, Any], path: Path) -> State:
    """The dict of tensors inside the dicts that training scripts save."""
    for _ in range(5):
        inside = [name for name in WRAPPERS if isinstance(content.get(name), Mapping)]
        if not inside:
            break
        if len(inside) > 1:
            log.warning("%s holds %s; %r is used.", path, " and ".join(inside), inside[0])
        content = content[inside[0]]
    others = [name for name, value in content.items() if not _is_plain(value)]
    if others or not content:
        what = f"{some(others)} are no tensors" if others else "it is empty"
        raise ModelError(f"{path} is not a state dict: {what}. Save `model.state_dict()`.")
    return {str(name): value.detach() for name, value in content.items()}


def _is_plain(value: object) -> bool:
    return isinstance(value, Tensor) and value.layout is torch.strided and not value.is_quantized


def fitted(state: State, expected: State, what: str, path: Path, advice: str) -> State:
    """Exactly the expected weights, in their types; an error names what is missing or too much."""
    missing = [key for key in expected if key not in state]
    unexpected = [key for key in state if key not in expected]
    shapes = [
        f"{key} ({_kind(state[key])}, expected {_kind(like)})"
        for key, like in expected.items()
        if key in state and _kind(state[key]) != _kind(like)
    ]
    if missing or unexpected or shapes:
        groups = (("missing", missing), ("unexpected", unexpected), ("of another shape", shapes))
        faults = "; ".join(f"{len(keys)} {kind}: {some(keys)}" for kind, keys in groups if keys)
        raise ModelError(f"{path} does not fit {what}: {faults}. {advice}")
    wanted = {key: state[key].to(like.dtype).contiguous() for key, like in expected.items()}
    bad = [key for key, value in wanted.items() if not value.float().isfinite().all()]
    if bad:
        raise ModelError(
            f"{path} holds NaN or infinite weights in {some(bad)}: the training diverged, "
            "take another checkpoint."
        )
    return wanted


def _kind(tensor: Tensor) -> str:
    kind = "" if tensor.is_floating_point() else f" {tensor.dtype}".replace("torch.", "")
    return f"{tuple(tensor.shape)}{kind}"


def some(names: Iterable[str]) -> str:
    """Five of the names at most."""
    names = [str(name) for name in names]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
