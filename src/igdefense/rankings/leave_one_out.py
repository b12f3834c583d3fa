"""LO-IR: a neuron matters to a class as much as the class's logit falls without it."""

import itertools
import logging
from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from igdefense import __version__
from igdefense.data.data import Data
from igdefense.errors import DataError, SettingError
from igdefense.layers import neuron_axis, neurons_of
from igdefense.models.check import check_model
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.progress import track
from igdefense.rankings.batches import Probing
from igdefense.rankings.head import AffineHead
from igdefense.rankings.ranking import Ranking
from igdefense.running.pool import Backend
from igdefense.split import Split, activations_of, split, with_activations
from igdefense.types import Images, Labels

log = logging.getLogger(__name__)
Change = Literal["signed", "absolute"]


@torch.no_grad()
def leave_one_out(
    model: nn.Module,
    data: Data,
    layer: str,
    *,
    change: Change = "signed",
    batch_size: int = 100,
    backend: Backend | None = None,
    progress: bool | None = None,
) -> Ranking:
    """Rank a layer by the mean of `f_c(x) - f_c^[j](x)` over the images of class c.

    `change="absolute"` averages the size of the change instead, as the released code does.
    Both equal masking each neuron and running the network again, to float tolerance. Where the
    rest of the network is affine (pooling, linear), one forward pass ranks every neuron. On a
    `backend` each batch is a unit of work, and the ranking is the same.
    """
    if change not in ("signed", "absolute"):
        raise SettingError(f"change = {change!r}; expected 'signed' or 'absolute'.")
    classes = check_model(model, data.images[:2])
    _check_classes(data, classes)
    if backend is None:
        changes = _changes(split(model, layer), data, batch_size, progress)
    else:
        probing = Probing(model, data, batch_size, layer)
        changes = probing.each(change_of_batch, f"LO-IR at {layer}", backend, progress)
    sums = counts = None
    for change_of_label, labels in changes:  # (images, neurons), in each image's own class
        if sums is None or counts is None:
            sums = change_of_label.new_zeros(classes, change_of_label.shape[1], dtype=torch.double)
            counts = sums.new_zeros(classes, 1)
        size = change_of_label.abs() if change == "absolute" else change_of_label
        sums.index_add_(0, labels, size.double())
        counts.index_add_(0, labels, counts.new_ones(len(labels), 1))
    assert sums is not None
    assert counts is not None
    provenance = {
        "method": "LO-IR",
        "settings": f"change={change}",
        "model": weights_fingerprint(model),
        "data": data.fingerprint,
        "images": str(len(data)),
        "version": __version__,
    }
    return Ranking(layer, (sums / counts).float().cpu(), provenance)


def _changes(
    parts: Split, data: Data, batch_size: int, progress: bool | None
) -> Iterator[tuple[Tensor, Labels]]:
    """For each batch, how the logit of each image's own class falls without each neuron."""
    device = _device(parts.model)
    batches = (
        (images.to(device), labels.to(device)) for images, labels in data.batches(batch_size)
    )
    count = -(-len(data) // batch_size)
    what = f"LO-IR at {parts.layer}"
    head = _head(parts, data.images[:2].to(device))
    if head is not None:
        for images, labels in track(batches, what, progress, total=count):
            yield head.contributions(activations_of(parts.before(images)), labels), labels
        return
    log.info("The part after %r is not affine: masking each neuron in turn.", parts.layer)
    neurons = neurons_of(activations_of(parts.before(data.images[:2].to(device))))
    bar = iter(track(range(count * neurons), what, progress))
    for images, labels in batches:
        yield _masked_in_turn(parts, images, labels, bar), labels
    next(bar, None)  # closes the bar


@torch.no_grad()
def change_of_batch(probing: Probing, start: int) -> tuple[Tensor, Labels]:
    """One batch of the same, as a unit of work."""
    parts: Split = probing.once("split", lambda: split(probing.model, probing.about))
    images, labels = probing.batch(start)
    some = probing.data.images[:2].to(images.device)
    head = probing.once("head", lambda: _head(parts, some))
    if head is None:
        fallen = _masked_in_turn(parts, images, labels, itertools.repeat(0))
    else:
        fallen = head.contributions(activations_of(parts.before(images)), labels)
    return fallen.cpu(), labels.cpu()


def _head(parts: Split, images: Images) -> AffineHead | None:
    """The closed form, where there is one."""
    if not parts.affine:
        return None
    head = AffineHead.of(parts, activations_of(parts.before(images)))
    return head if _agrees(head, parts, images) else None


def _masked_in_turn(parts: Split, images: Images, labels: Labels, bar: Iterator[int]) -> Tensor:
    state = parts.before(images)
    activations = activations_of(state)
    own = torch.arange(len(labels), device=labels.device)
    full = parts.after(state)[own, labels]
    axis = neuron_axis(activations)
    fallen = full.new_zeros(len(labels), neurons_of(activations))
    for neuron in range(fallen.shape[1]):
        next(bar)
        # A neuron that is silent on an image changes nothing there: run the others only.
        active = (
            activations.select(axis, neuron).flatten(1).ne(0).any(1).nonzero().flatten()
            if (activations.ndim > 2)
            else activations[:, neuron].nonzero().flatten()
        )
        if len(active) == 0:
            continue
        if parts.separate:
            masked = activations[active]
            masked.select(axis, neuron).zero_()
            logits = parts.resume(masked)[torch.arange(len(active)), labels[active]]
            fallen[active, neuron] = full[active] - logits
        else:
            masked = activations.clone()
            masked.select(axis, neuron).zero_()
            fallen[:, neuron] = full - parts.after(with_activations(state, masked))[own, labels]
    return fallen


def _agrees(head: AffineHead, parts: Split, images: Images) -> bool:
    """Whether the closed form equals masking for one neuron: a guard on the whitelist."""
    state = parts.before(images)
    activations = activations_of(state)
    axis = neuron_axis(activations)
    neuron = int(activations.abs().movedim(axis, 0).flatten(1).sum(1).argmax())
    masked = activations.clone()
    masked.select(axis, neuron).zero_()
    fallen = parts.after(state) - parts.after(with_activations(state, masked))
    closed = [
        head.contributions(activations, torch.full((len(images),), c, device=images.device))
        for c in range(min(2, fallen.shape[1]))
    ]
    return all(
        torch.allclose(form[:, neuron], fallen[:, c], rtol=1e-3, atol=1e-4)
        for c, form in enumerate(closed)
    )


def _check_classes(data: Data, classes: int) -> None:
    if len(data.class_names) != classes:
        raise DataError(
            f"The model has {classes} logits but the data {len(data.class_names)} classes."
        )
    empty = (torch.bincount(data.labels, minlength=classes) == 0).nonzero().flatten().tolist()
    if empty:
        names = ", ".join(repr(data.class_names[c]) for c in empty[:5])
        more = f" and {len(empty) - 5} more" if len(empty) > 5 else ""
        raise DataError(
            f"The probe set has no image of class {names}{more}; LO-IR needs one of each class."
        )


def _device(model: nn.Module) -> torch.device:
    tensors = [*model.parameters(), *model.buffers()]
    return tensors[0].device if tensors else torch.device("cpu")
