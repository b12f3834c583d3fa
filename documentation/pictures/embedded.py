"""The embedded model and its defense, as the pictures use them."""

from functools import cache

import torch
from torch import Tensor

import igdefense as igd
from igdefense.attacks.losses import cw


@cache
def model() -> torch.nn.Module:
    return igd.load_model("embedded")


@cache
def ranking() -> igd.Ranking:
    return igd.leave_one_out(model(), igd.load_data("embedded:probe", n=500), "layer4")


@cache
def defense() -> igd.IGDefense:
    return igd.defend(model(), ranking(), keep=16)


@cache
def shown(count: int) -> igd.Data:
    """The first test images that the model gets right."""
    data = igd.load_data("embedded:test", n=8 * count)
    with torch.no_grad():
        right = model()(data.images[:]).argmax(1) == data.labels
    return data[right.nonzero().flatten()[:count]]


@torch.no_grad()
def margins(x: Tensor, labels: Tensor, draw: int) -> Tensor:
    """The largest wrong logit minus the right one, on one draw of the defense's noise."""
    return cw(defense()(x, [f"picture {draw}"] * len(x)), labels)
