"""A real robust model and real images to compare attacks on, where they are at hand."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor

from igdefense.models.resnet import ResNet

SHARED = Path(__file__).parents[2].parent / "shared"
WEIGHTS = SHARED / "models" / "resnet18-w16-fat12.safetensors"
PICTURES = SHARED / "data" / "cifar100" / "test_0.png"

needs_robust_resnet = pytest.mark.skipif(
    not (WEIGHTS.is_file() and PICTURES.is_file()),
    reason="the shared checkpoint or its images are not here",
)


def robust_resnet() -> ResNet:
    weights = load_file(WEIGHTS)
    for name in ("mean", "std"):
        weights[f"normalize.{name}"] = weights.pop(name).view(1, -1, 1, 1)
    net = ResNet(width=16)
    net.load_state_dict(weights)
    return net.eval()


def pictures(count: int) -> Tensor:
    with Image.open(PICTURES) as rows:  # one 32x32 image a row
        pixels = np.asarray(rows.convert("RGB").crop((0, 0, 1024, count)))
    planes = pixels.reshape(count, 32, 32, 3).transpose(0, 3, 1, 2)
    return torch.from_numpy(planes.copy()) / 255
