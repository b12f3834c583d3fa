"""Defenses whose noise matters, to be exported, with images for them."""

import torch
from torch import Tensor, nn

from igdefense import IGDefense, Ranking, load_data, load_model
from igdefense.models.resnet import WideResNet
from nets import make_net

NAMES = ("embedded", "wide", "vit")
SEED = 5


def made(name: str, samples: int = 2) -> tuple[IGDefense, Tensor]:
    """A net of that name with a soft first guess under much noise."""
    rng = torch.Generator().manual_seed(1)
    model, layer, neurons, keep, size = _net(name)
    classes = 10 if name == "embedded" else 3
    ranking = Ranking(layer, torch.rand(classes, neurons, generator=rng))
    defense = IGDefense(
        model, ranking, keep, sigma=0.2, samples=samples, temperature=1.0, seed=SEED
    )
    if name == "embedded":
        return defense, load_data("embedded:test").images[:7]
    return defense, torch.rand(7, 3, size, size, generator=rng)


def _net(name: str) -> tuple[nn.Module, str, int, int, int]:
    if name == "embedded":
        return load_model("embedded"), "layer4", 128, 16, 32
    if name == "vit":
        return make_net("vit"), "blocks.0", 8, 3, 8
    if name == "cnn":
        return make_net("cnn"), "last", 10, 4, 8
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return WideResNet(depth=10, widen=1, classes=3).eval(), "relu", 64, 9, 16
