"""A small IG-Defense whose pseudo-label has no gradient on most images."""

import torch
from torch import Tensor

from igdefense.data.data import Data
from igdefense.defenses.ig_defense import IGDefense
from igdefense.models.toys import ConvNet
from igdefense.randomness import generator
from igdefense.rankings.leave_one_out import leave_one_out

CLASSES = ["a", "b", "c", "d", "e"]


def some_images(count: int = 32) -> Tensor:
    return torch.rand(count, 3, 8, 8, generator=generator("images"))


def confident_net() -> ConvNet:
    net = ConvNet(seed=1).eval()
    with torch.no_grad():
        for parameter in net[-1].parameters():
            parameter.mul_(30)
    return net


def hard_defense(*, sigma: float = 0.0, temperature: float = 0.01, keep: int = 2) -> IGDefense:
    net, images = confident_net(), some_images()
    ranking = leave_one_out(net, Data(images, torch.arange(32) % 5, CLASSES), "3")
    return IGDefense(net, ranking, keep, sigma=sigma, temperature=temperature)
