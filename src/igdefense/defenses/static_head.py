"""Deterministic relatives of IG-Defense: the weights of the head, changed once and for all."""

from typing import Any

import torch
from torch import Tensor, nn

from igdefense.data.data import Data
from igdefense.errors import LayerError, SettingError
from igdefense.models.check import check_eval
from igdefense.models.fingerprint import hash_text, identity
from igdefense.rankings.head import AffineHead
from igdefense.rankings.ranking import Ranking
from igdefense.split import Split, activations_of, split
from igdefense.types import Images, Logits


class StaticHead(nn.Module):
    """A model whose affine head, all that comes after a layer, has other weights."""

    random = False
    weight: Tensor
    bias: Tensor

    def __init__(self, model: nn.Module, layer: str, head: AffineHead) -> None:
        super().__init__()
        self.model, self.layer = model, layer
        self.register_buffer("weight", head.weight.detach().clone(), persistent=False)
        self.register_buffer("bias", head.bias.detach().clone(), persistent=False)
        self._split: Split | None = None
        self.eval()

    def forward(self, images: Images) -> Logits:
        if self._split is None:
            self._split = split(self.model, self.layer)
        activations = activations_of(self._split.before(images))
        return AffineHead(self.weight, self.bias).logits(activations)

    def identity(self) -> str:
        """Names the base model, the layer and the new weights."""
        weights = (self.weight.double().tolist(), self.bias.double().tolist())
        return hash_text(type(self).__name__, identity(self.model), self.layer, *weights)

    def extra_repr(self) -> str:
        return f"after {self.layer!r}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_split": None}  # made again where it is needed


def class_masked(model: nn.Module, ranking: Ranking, keep: int, images: Images) -> StaticHead:
    """Each class's logit from its own `keep` neurons alone: no guess, no second pass.

    `images`, a few of the right size, tell the shape of the layer's output.
    """
    head, _ = _head(model, ranking.layer, images)
    masks = ranking.masks(keep).to(head.weight)
    if masks.shape != head.weight.shape[:2]:
        raise SettingError(
            f"{ranking!r} does not fit a head of {head.weight.shape[0]} classes and "
            f"{head.weight.shape[1]} neurons."
        )
    masked = AffineHead(head.weight * masks.unsqueeze(2), head.bias)
    return StaticHead(model, ranking.layer, masked)


@torch.no_grad()
def spectral(model: nn.Module, data: Data, layer: str, directions: int) -> StaticHead:
    """The head, projected onto the features' most robust directions (arXiv:2307.11672).

    Of the eigenvectors u of E[phi phi^T] with eigenvalues l, the `directions` of largest
    l (w_c . u)^2 are taken for each class c; the weights of all classes are projected onto the
    span of those of any class.
    """
    head, parts = _head(model, layer, data.images[:2])
    weight = head.weight.flatten(1).double()
    if not 1 <= directions <= weight.shape[1]:
        raise SettingError(
            f"directions = {directions} is outside 1 to {weight.shape[1]}, the features of "
            f"{layer!r}."
        )
    moment = torch.zeros(weight.shape[1], weight.shape[1], dtype=torch.double)
    for images, _ in data.batches(100):
        features = head.positions(activations_of(parts.before(images))).flatten(1).double().cpu()
        moment += features.T @ features
    values, vectors = torch.linalg.eigh(moment / len(data))
    scores = values * (weight.cpu() @ vectors).square()  # classes x directions
    chosen = scores.topk(directions, dim=1).indices.unique()
    basis = vectors[:, chosen].to(weight)
    projected = (weight @ basis @ basis.T).view_as(head.weight).to(head.weight)
    return StaticHead(model, layer, AffineHead(projected, head.bias))


def _head(model: nn.Module, layer: str, images: Images) -> tuple[AffineHead, Split]:
    check_eval(model)
    parts = split(model, layer)
    activations = activations_of(parts.before(images[:2]))
    if not parts.affine:
        raise LayerError(
            f"What comes after {layer!r} is not known to be affine, so it has no weights to "
            "change; choose the last layer before the linear head."
        )
    return AffineHead.of(parts, activations), parts
