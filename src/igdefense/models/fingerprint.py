"""Short names for models and settings, by their content."""

import hashlib
import json
from typing import Any

import torch
from torch import nn


def weights_fingerprint(model: nn.Module) -> str:
    """Changes with the model's class and with any name, shape, type or value of its tensors."""
    digest = hashlib.sha256(type(model).__name__.encode())
    for name, tensor in sorted(model.state_dict().items()):
        value = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        digest.update(
            value.flatten().view(dtype=torch.uint8).numpy().tobytes() if value.numel() else b""
        )
    return digest.hexdigest()[:16]


def identity(model: nn.Module) -> str:
    """Names a model or a defense; a defense adds its settings by a method `identity`."""
    own = getattr(model, "identity", None)
    return str(own()) if callable(own) else weights_fingerprint(model)


def hash_text(*parts: Any) -> str:
    """A short name for values, from their JSON or their text."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]
