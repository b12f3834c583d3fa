"""A trained model as a file, in half precision where that is asked for."""

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from igdefense.files import written_whole


@torch.no_grad()
def store(model: nn.Module, path: Path, *, half: bool = False) -> None:
    """Write the weights. With `half` the model itself is rounded, too: what is stored is measured.

    Tensors of one axis stay as they are: a batch norm's variances can be too small for half
    precision, and they weigh nothing.
    """
    tensors = {name: value.contiguous() for name, value in model.state_dict().items()}
    if half:
        for name, value in tensors.items():
            if value.ndim > 1 and value.is_floating_point() and not name.startswith("normalize."):
                tensors[name] = value.half()
        model.load_state_dict(tensors)
    with written_whole(path) as part:
        save_file(tensors, part)
