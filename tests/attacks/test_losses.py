import math

import pytest
import torch
from torch import tensor
from torch.testing import assert_close

from igdefense.attacks.losses import (
    LOSSES,
    Loss,
    cross_entropy,
    cw,
    dlr,
    rescaled_cross_entropy,
    targeted_cw,
    targeted_dlr,
)
from igdefense.randomness import generator

LOGITS = tensor([[4.0, 1.0, 3.0, 0.0], [1.0, 5.0, 2.0, 4.0]])
LABELS = tensor([0, 2])
TARGETS = tensor([1, 3])


def test_losses_have_their_textbook_values() -> None:
    assert_close(cw(LOGITS, LABELS), tensor([3.0 - 4.0, 5.0 - 2.0]))
    assert_close(dlr(LOGITS, LABELS), tensor([-1.0 / (4 - 1), 3.0 / (5 - 2)]))
    assert_close(targeted_cw(LOGITS, LABELS, TARGETS), tensor([1.0 - 4.0, 4.0 - 2.0]))
    below = [4 - (1 + 0) / 2, 5 - (2 + 1) / 2]
    assert_close(targeted_dlr(LOGITS, LABELS, TARGETS), tensor([-3.0 / below[0], 2.0 / below[1]]))
    even = torch.zeros(1, 4)
    assert_close(cross_entropy(even, tensor([1])), tensor([math.log(4)]))


def test_dlr_is_the_margin_when_there_are_too_few_classes() -> None:
    two, three = LOGITS[:, :2], LOGITS[:, :3]
    ones = tensor([1, 1])
    assert_close(dlr(two, ones), cw(two, ones))
    assert not torch.equal(dlr(three, ones), cw(three, ones))
    zeros = tensor([0, 0])
    assert_close(targeted_dlr(three, ones, zeros), targeted_cw(three, ones, zeros))


def test_rescaled_cross_entropy_is_a_margin_with_the_slope_of_a_softmax_one_apart() -> None:
    logits = LOGITS.clone().requires_grad_()
    losses = rescaled_cross_entropy(logits, LABELS)
    assert_close(losses.detach(), cw(LOGITS, LABELS))
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    gaps = tensor([[4.0 - 3.0], [5.0 - 4.0]])
    hits = torch.nn.functional.one_hot(LABELS, 4)
    assert_close(gradient, ((LOGITS / gaps).softmax(1) - hits) / gaps)


def test_rescaled_cross_entropy_has_a_gradient_where_the_plain_one_has_none() -> None:
    logits = tensor([[300.0, 100.0, 50.0]], requires_grad=True)
    zero = tensor([0])
    slopes = [
        torch.autograd.grad(loss(logits, zero).sum(), logits)[0].abs().max()
        for loss in (cross_entropy, rescaled_cross_entropy)
    ]
    assert slopes[0] == 0
    assert_close(slopes[1] * 200, 1 - torch.softmax(logits.detach() / 200, 1)[0, 0])


@pytest.mark.parametrize("loss", [cw, dlr])
def test_margin_losses_are_positive_where_the_class_is_wrong(loss: Loss) -> None:
    logits = torch.randn(200, 5, generator=generator(0))
    labels = torch.arange(200) % 5
    assert torch.equal(loss(logits, labels) > 0, logits.argmax(1) != labels)


@pytest.mark.parametrize("loss", LOSSES.values())
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_gradients_are_finite(loss: Loss, scale: float) -> None:
    logits = (scale * LOGITS).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(logits, LABELS).sum(), logits)
    assert gradient.isfinite().all()
