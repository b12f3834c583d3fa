"""NetDissect against its definition, and the streamed quantile against the exact one."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.testing import assert_close

import igdefense as igd
from igdefense.data.data import Data
from igdefense.errors import DataError, SettingError
from igdefense.layers import reading
from igdefense.rankings import net_dissect as module
from igdefense.rankings.maps import maps_of
from igdefense.rankings.tail import Tail
from nets import CLASSES, make_net

Array = NDArray[np.float64]
NETS = [
    ("mlp", "act"),
    ("cnn", "conv2"),
    ("cnn", "last"),
    ("vit", "blocks.0"),
    ("untraceable", "conv2"),
    ("resnet", "layer3"),
]


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def bilinear(row: Array, size: int) -> Array:
    """Linear interpolation between pixel centres along the last axis, constant at the border."""
    places = (np.arange(size) + 0.5) * row.shape[-1] / size - 0.5
    places = places.clip(0, row.shape[-1] - 1)
    left = np.floor(places).astype(int).clip(0, max(0, row.shape[-1] - 2))
    right = np.minimum(left + 1, row.shape[-1] - 1)
    share = places - left
    mixed: Array = row[..., left] * (1 - share) + row[..., right] * share
    return mixed


@torch.no_grad()
def by_definition(
    net: nn.Module, data: Data, layer: str, quantile: float, masks: Tensor | None
) -> Tensor:
    with reading(net, layer) as outputs:
        net(data.images[:])
    maps = outputs[0].double().numpy()
    if maps.ndim == 3:
        maps = maps[:, 1:].transpose(0, 2, 1).reshape(len(maps), -1, 2, 2)  # our ViT: 2 x 2 patches
    maps = maps.reshape(*maps.shape[:2], *(maps.shape[2:] or (1, 1)))
    height, width = data.images.shape[2:]
    where = data.labels[:, None, None].expand(-1, height, width) if masks is None else masks
    scores = np.zeros((len(data.class_names), maps.shape[1]))
    for neuron in range(maps.shape[1]):
        values = np.sort(maps[:, neuron].flatten())[::-1]
        k = max(1, math.floor(quantile * len(values)))
        threshold = values[k - 1 : k + 1].mean()
        rows = bilinear(maps[:, neuron], width)
        on = bilinear(rows.swapaxes(1, 2), height).swapaxes(1, 2) > threshold
        for label in range(len(scores)):
            there = where.numpy() == label
            scores[label, neuron] = (on & there).sum() / (on | there).sum()
    return torch.from_numpy(scores).float()


@pytest.mark.parametrize(("name", "layer"), NETS, ids=lambda part: part)
@pytest.mark.parametrize(("quantile", "masked"), [(0.03, True), (0.3, False)])
def test_scores_equal_intersection_over_union_by_definition(
    name: str,
    layer: str,
    data: Data,
    quantile: float,
    masked: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CHUNK", 700)  # a few neurons at a time
    rng = torch.Generator().manual_seed(2)
    masks = torch.randint(-1, CLASSES, (9, 8, 8), generator=rng) if masked else None
    net = make_net(name)
    expected = by_definition(net, data, layer, quantile, masks)
    ranking = igd.net_dissect(net, data, layer, quantile=quantile, masks=masks, batch_size=4)
    assert_close(ranking.scores, expected, rtol=1e-6, atol=0)


class Detectors(nn.Module):
    """Neuron c is the brightness of images of class c and 0 on all others; neuron 3 is dead."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Identity()
        self.anchor = nn.Parameter(torch.zeros(1))

    def forward(self, images: Tensor) -> Tensor:
        value, label = images[:, 0, 0, 0], (images[:, 1, 0, 0] * 4).round().long()
        on = value[:, None] * nn.functional.one_hot(label, 4)
        return self.layer(on)[:, :3] - 1


@pytest.mark.parametrize(
    ("quantile", "expected"),
    [(1 / 3, 1.0), (0.9, 1.0), (0.1, 12 / 40), (0.005, 1 / 40), (0.0001, 1 / 40)],
)
def test_a_perfect_detector_scores_what_the_quantile_lets_through(
    quantile: float, expected: float
) -> None:
    labels = torch.arange(120) % 3  # forty of each class
    images = torch.zeros(120, 3, 8, 8)
    images[:, 0] = torch.linspace(0.1, 1, 120)[:, None, None]
    images[:, 1] = labels[:, None, None] / 4
    scores = igd.net_dissect(
        Detectors().eval(), Data(images, labels), "layer", quantile=quantile
    ).scores
    assert_close(scores[:, :3], expected * torch.eye(3))
    assert scores[:, 3].tolist() == [0, 0, 0]


def test_the_streamed_threshold_is_the_exact_quantile_while_it_fits() -> None:
    maps = drawn(50, 4, 6, 6)
    tail = Tail(0.02, 50 * 36)
    for start in range(0, 50, 7):
        tail.add(start, maps[start : start + 7])
    flat = maps.transpose(0, 1).flatten(1)
    assert_close(tail.thresholds, flat.sort(descending=True).values[:, 35:37].mean(1))
    assert ((flat > tail.thresholds[:, None]).sum(1) == 36).all()


def test_beyond_its_capacity_the_threshold_keeps_its_stated_error() -> None:
    maps, capacity = drawn(2000, 30, 6, 6).exp(), 400
    tail = Tail(0.05, 2000 * 36, capacity)  # 3,600 belong above: nine times too many
    for start in range(0, 2000, 100):
        tail.add(start, maps[start : start + 100])
    above = (maps > tail.thresholds[:, None, None]).double().mean((0, 2, 3))
    error = above / 0.05 - 1
    assert error.abs().max() < 4 / math.sqrt(capacity)
    assert 0.7 < error.square().mean().sqrt() * math.sqrt(capacity) < 1.4
    assert tail.largest is not None
    assert tail.largest.shape[1] < 1.4 * capacity


@pytest.mark.parametrize("capacity", [10, 4096])
def test_the_threshold_does_not_depend_on_the_batch_size(capacity: int) -> None:
    maps, found = drawn(60, 3, 4, 4), []
    for size in (1, 13, 60):
        tail = Tail(0.1, 60 * 16, capacity)
        for start in range(0, 60, size):
            tail.add(start, maps[start : start + size])
        found.append(tail.thresholds.tolist())
    assert found[0] == found[1] == found[2]


def test_tokens_are_laid_out_in_a_square_without_the_class_token() -> None:
    tokens = torch.arange(17.0)[None, :, None].expand(1, 17, 2)
    assert torch.equal(maps_of(tokens)[0, 1], torch.arange(1.0, 17).reshape(4, 4))
    assert torch.equal(maps_of(tokens[:, 1:])[0, 0], torch.arange(1.0, 17).reshape(4, 4))
    assert maps_of(tokens[:, :7]).flatten().tolist() == [3, 3]


@pytest.mark.parametrize("quantile", [0, 1, -0.1, float("nan")])
def test_a_quantile_outside_its_range_is_refused(quantile: float, data: Data) -> None:
    with pytest.raises(SettingError, match="expected a share between 0 and 1"):
        igd.net_dissect(make_net("cnn"), data, "last", quantile=quantile)


@pytest.mark.parametrize(
    ("masks", "says"),
    [
        (torch.zeros(9, 8, 7, dtype=torch.long), r"shape \(9, 8, 7\); expected \(9, 8, 8\)"),
        (torch.full((9, 8, 8), 3), "hold class 3; expected 0 to 2"),
        (torch.full((9, 8, 8), -2), "hold class -2; expected 0 to 2"),
        (torch.zeros(9, 8, 8, dtype=torch.long), "no pixel of class 'dog', 'bird'"),
    ],
)
def test_masks_that_do_not_fit_are_refused(masks: Tensor, says: str, data: Data) -> None:
    with pytest.raises(DataError, match=says):
        igd.net_dissect(make_net("cnn"), data, "last", masks=masks)


def test_a_class_without_images_is_refused(data: Data) -> None:
    with pytest.raises(DataError, match="no image of class 'bird'; NetDissect needs one of each"):
        igd.net_dissect(make_net("cnn"), data[:2], "last")


def test_provenance_names_quantile_pixels_weights_and_data(data: Data) -> None:
    net = make_net("cnn")
    record = igd.net_dissect(net, data, "last").provenance
    assert (record["method"], record["settings"]) == ("NetDissect", "quantile=0.005, pixels=labels")
    assert (record["data"], record["images"]) == (data.fingerprint, "9")
    masks = [torch.arange(9 * 64).reshape(9, 8, 8) % c for c in (3, 3)]
    masks[1][0, 0, 0] = -1
    settings = {igd.net_dissect(net, data, "last", masks=m).provenance["settings"] for m in masks}
    assert len(settings) == 2
