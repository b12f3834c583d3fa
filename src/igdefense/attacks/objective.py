"""What a view says about a point, averaged over the view's draws one call at a time."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from igdefense.attacks.losses import Loss, Losses
from igdefense.attacks.views import Sharing, View, shared_by_draws, sharing
from igdefense.errors import ModelError
from igdefense.types import Images, Labels, Logits, Outcomes


@dataclass(frozen=True, eq=False)
class Objective:
    """Mean loss and gradient of each image, and whether most draws misclassify it."""

    loss: Losses
    gradient: Images
    wrong: Outcomes


def evaluate(view: View, x: Images, labels: Labels, loss: Loss) -> Objective:
    """One forward and one backward pass a draw; what the draws share is passed once."""
    x = x.detach().requires_grad_()
    total = torch.zeros(len(x), dtype=x.dtype, device=x.device)
    wrong = torch.zeros_like(total)
    with torch.enable_grad():
        shared = shared_by_draws(view, x, view.samples)
    leaves, seen = [x], view
    if shared is not None:
        leaves.append(shared.detach().requires_grad_())
        seen = Sharing(view, leaves[1])
    slopes = [torch.zeros_like(leaf) for leaf in leaves]
    for _ in range(view.samples):
        with torch.enable_grad():
            logits = seen(x)
            losses = loss(logits, labels)
        for slope, one in zip(slopes, gradients_of(losses, leaves), strict=True):
            slope.add_(one)
        total += losses.detach()
        wrong += logits.detach().argmax(1) != labels
    gradient, n = slopes[0], view.samples
    if shared is not None:
        gradient = gradient + torch.autograd.grad(shared, x, slopes[1])[0]
    return Objective(total / n, gradient / n, _most(wrong, n))


@torch.no_grad()
def misclassified(view: View, x: Images, labels: Labels) -> Outcomes:
    """Whether the view misclassifies each image in more than half of its draws."""
    return most_wrong(view, x, labels, view.samples)


@torch.no_grad()
def most_wrong(view: View, x: Images, labels: Labels, draws: int) -> Outcomes:
    """Whether each image is misclassified in more than half of so many draws."""
    wrong = torch.zeros(len(x), device=x.device)
    view = sharing(view, x, draws)
    for _ in range(draws):
        wrong += view(x).argmax(1) != labels
    return _most(wrong, draws)


@torch.no_grad()
def mean_logits(view: View, x: Images) -> Logits:
    """The logits, averaged over the view's draws."""
    view = sharing(view, x, view.samples)
    total = view(x).clone()
    for _ in range(view.samples - 1):
        total += view(x)
    return total / view.samples


def likeliest_targets(view: View, images: Images, labels: Labels, count: int | None) -> Tensor:
    """(images, targets): the wrong classes by falling clean logit; None is min(9, C - 1)."""
    return likeliest(mean_logits(view, images), labels, count)


def likeliest(logits: Logits, labels: Labels, count: int | None) -> Tensor:
    """(images, targets): the wrong classes by falling logit; None is min(9, C - 1)."""
    most = logits.shape[1] - 1
    rivals = logits.scatter(1, labels.unsqueeze(1), -float("inf"))
    return rivals.topk(min(9 if count is None else count, most)).indices


def gradient_of(losses: Float[Tensor, " batch"], x: Images) -> Images:
    """The gradient of each image's own loss."""
    return gradients_of(losses, [x])[0]


def gradients_of(losses: Float[Tensor, " batch"], leaves: list[Tensor]) -> list[Tensor]:
    """The same with respect to several leaves, 0 for one that has no part in it."""
    if losses.requires_grad:
        found = torch.autograd.grad(losses, leaves, torch.ones_like(losses), allow_unused=True)
        if any(gradient is not None for gradient in found):
            return [
                torch.zeros_like(leaf) if gradient is None else gradient
                for leaf, gradient in zip(leaves, found, strict=True)
            ]
    raise ModelError(
        "The logits do not depend on the pixels differentiably, so there is no gradient to follow. "
        "Attack a differentiable view, or use RayS or Square."
    )


def _most(wrong: Tensor, draws: int) -> Outcomes:
    return wrong > draws / 2
