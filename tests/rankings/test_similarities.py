"""The five measures against plain loops over neurons, written from their definitions."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from igdefense.rankings import similarities as module
from igdefense.rankings.clip_dissect import cosine, cosine_cubed, rank_reorder, soft_wpmi, wpmi
from igdefense.rankings.top_images import top_images


def drawn(images: int, classes: int, neurons: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    cosines = 0.1 + 0.3 * torch.rand(images, classes, generator=rng)
    return cosines, torch.randn(images, neurons, generator=rng)


def best(column: Tensor, count: int) -> Tensor:
    return column.argsort(descending=True, stable=True)[:count]


def soft_wpmi_loop(cosines: Tensor, activations: Tensor, top: int = 100) -> Tensor:
    shares = torch.softmax(10 * cosines.double(), dim=1)
    rows = []
    for column in activations.T:
        total = torch.zeros(cosines.shape[1], dtype=torch.double)
        for r, image in enumerate(best(column, top).tolist()):
            p = 0.998 - (r / top) * (0.998 - 0.97)
            total += torch.log(1 + p * (shares[image] - 1) + 1e-7)
        rows.append(total)
    table = torch.stack(rows, dim=1)
    return table - (torch.logsumexp(table, 1, keepdim=True) - math.log(len(rows)))


def wpmi_loop(cosines: Tensor, activations: Tensor) -> Tensor:
    shares = torch.softmax(2 * cosines.double(), dim=1)
    rows = [torch.log(shares[best(column, 28)] + 1e-7).sum(0) for column in activations.T]
    table = torch.stack(rows, dim=1)
    return table - 0.6 * (torch.logsumexp(table, 1, keepdim=True) - math.log(len(rows)))


def rank_reorder_loop(cosines: Tensor, activations: Tensor) -> Tensor:
    top = int(0.05 * len(activations))
    scores = torch.zeros(cosines.shape[1], activations.shape[1], dtype=torch.double)
    for neuron, column in enumerate(activations.T):
        chosen = best(column, top)
        values = column[chosen].double()
        pairs = (values[:, None] - values).abs() ** 3
        for label in range(len(scores)):
            near = cosines[chosen, label]
            moved = torch.empty_like(values)
            moved[near.argsort(descending=True)] = values  # the highest where the name fits best
            error = ((values - moved).abs() ** 3).mean() / pairs.mean()
            scores[label, neuron] = -error / near.double().mean() ** 0.5
    return scores


def cosine_loop(cosines: Tensor, activations: Tensor, power: int = 1) -> Tensor:
    scores = torch.zeros(cosines.shape[1], activations.shape[1], dtype=torch.double)
    for neuron, column in enumerate(activations.double().T):
        for label, row in enumerate(cosines.double().T):
            a, b = column, row
            if power == 3:
                a, b = (a - a.mean()) ** 3, (b - b.mean()) ** 3
            scores[label, neuron] = (a @ b) / (a.norm() * b.norm())
    return scores


@pytest.mark.parametrize("chunk", [2**23, 5000])
@pytest.mark.parametrize(
    ("measure", "loop"),
    [
        (soft_wpmi, soft_wpmi_loop),
        (wpmi, wpmi_loop),
        (rank_reorder, rank_reorder_loop),
        (cosine, cosine_loop),
        (cosine_cubed, lambda p, a: cosine_loop(p, a, power=3)),
    ],
    ids=["soft-wpmi", "wpmi", "rank-reorder", "cosine", "cosine-cubed"],
)
def test_a_measure_equals_the_plain_loop_over_neurons(
    measure: module.Measure, loop: module.Measure, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK", chunk)  # all neurons at once, or one at a time
    cosines, activations = drawn(4000, 7, 33)
    expected = loop(cosines, activations)
    assert expected.std() > 1e-3
    assert_close(measure(cosines, activations).double(), expected, rtol=0, atol=1e-5)


def test_soft_wpmi_takes_double_and_half_precision() -> None:
    cosines, activations = drawn(300, 4, 9)
    expected = soft_wpmi_loop(cosines, activations)
    assert_close(soft_wpmi(cosines.double(), activations.double()), expected, rtol=0, atol=1e-5)
    halved = soft_wpmi(cosines.half(), activations).double()
    assert_close(halved, soft_wpmi_loop(cosines.half(), activations), rtol=0, atol=0.2)


def test_a_small_probe_set_is_used_whole() -> None:
    cosines, activations = drawn(30, 4, 5)
    expected = soft_wpmi_loop(cosines, activations, top=30)
    assert_close(soft_wpmi(cosines, activations).double(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("images", [5, 99, 3333])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_top_images_are_a_stable_sort_s_first(images: int, dtype: torch.dtype) -> None:
    activations = drawn(images, 1, 40)[1].to(dtype)
    tied = (activations.relu() * 2).round()
    negative = -activations.abs() - 1
    for values in (activations, tied, negative, tied - tied.flip(1), torch.zeros_like(tied)):
        expected = values.T.argsort(dim=1, descending=True, stable=True)[:, :5]
        assert torch.equal(top_images(values, 5), expected)


def test_minus_zero_ties_with_zero() -> None:
    values = torch.tensor([[-0.0], [0.0], [-0.0]])
    assert top_images(values, 3).tolist() == [[0, 1, 2]]


def test_a_neuron_that_never_varies_reorders_no_better_than_chance() -> None:
    cosines, activations = drawn(200, 3, 2)
    activations[:, 0] = 1
    scores = rank_reorder(cosines, activations)
    assert scores.isfinite().all()
    top = cosines[:10].double().mean(0)
    assert_close(scores[:, 0].double(), -1 / top.sqrt())
