"""NetDissect: a neuron matters to a class as much as it is active where the class is."""

import hashlib

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor, nn

from igdefense import __version__
from igdefense.data.data import Data
from igdefense.errors import DataError, SettingError
from igdefense.models.check import check_model
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.rankings.batches import Probing
from igdefense.rankings.maps import Maps, maps_of
from igdefense.rankings.ranking import Ranking
from igdefense.rankings.tail import Tail
from igdefense.running.pool import Backend
from igdefense.split import Split, activations_of, split
from igdefense.types import Labels

PixelClasses = Int[Tensor, "images height width"]  # -1 where a pixel belongs to no class
CHUNK = 2**23  # pixels of upsampled maps at a time


@torch.no_grad()
def net_dissect(
    model: nn.Module,
    data: Data,
    layer: str,
    *,
    quantile: float = 0.005,
    masks: PixelClasses | None = None,
    batch_size: int = 100,
    backend: Backend | None = None,
    progress: bool | None = None,
) -> Ranking:
    """Rank a layer by intersection over union of neurons and classes (arXiv:1704.05796).

    A neuron's pixels are those where its bilinearly upsampled activation map is above the
    neuron's top `quantile` over all images and all places of the map, as in the paper. A class's
    pixels are those that `masks` gives it (-1: no class), else all pixels of its images. Two
    passes over the data; `Tail` says how exact the streamed threshold is.
    """
    if not 0 < quantile < 1:
        raise SettingError(f"quantile = {quantile:g}; expected a share between 0 and 1.")
    classes = check_model(model, data.images[:2])
    area = _class_area(data, masks, classes)
    what = f"NetDissect at {layer}"
    probing = Probing(model, data, batch_size, (layer, quantile))
    tail: Tail | None = None
    for some in probing.each(tail_of_batch, f"{what}, thresholds", backend, progress):
        tail = some.after(tail)
    assert tail is not None
    thresholds = tail.thresholds
    both = area.new_zeros(classes, len(thresholds))  # pixels of the class and of the neuron
    active = area.new_zeros(len(thresholds))
    probing = Probing(model, data, batch_size, (layer, thresholds, masks, classes))
    for joint, mine in probing.each(overlap_of_batch, f"{what}, overlaps", backend, progress):
        both += joint
        active += mine
    scores = both / (area[:, None] + active - both)
    provenance = {
        "method": "NetDissect",
        "settings": f"quantile={quantile:g}, pixels={_source(masks)}",
        "model": weights_fingerprint(model),
        "data": data.fingerprint,
        "images": str(len(data)),
        "version": __version__,
    }
    return Ranking(layer, scores.float(), provenance)


@torch.no_grad()
def tail_of_batch(probing: Probing, start: int) -> Tail:
    """The largest activations of a batch, as a unit of work."""
    layer, quantile = probing.about
    maps = _maps(probing, layer, start)
    tail = Tail(quantile, len(probing.data) * maps.shape[2] * maps.shape[3])
    tail.add(start, maps)
    return tail


@torch.no_grad()
def overlap_of_batch(probing: Probing, start: int) -> tuple[Tensor, Tensor]:
    """Pixels of both class and neuron, and of each neuron, in a batch, as a unit of work."""
    layer, thresholds, masks, classes = probing.about
    maps = _maps(probing, layer, start)
    labels = probing.data.labels[start : start + len(maps)]
    pixels = None if masks is None else masks[start : start + len(maps)]
    height, width = probing.data.images.shape[2:]
    thresholds = thresholds.to(maps.device)
    both = torch.zeros(classes, len(thresholds), dtype=torch.double)
    active = torch.zeros(len(thresholds), dtype=torch.double)
    step = max(1, CHUNK // (len(maps) * height * width))
    for first in range(0, len(thresholds), step):
        some = slice(first, first + step)
        on = _active(maps[:, some], thresholds[some], probing.data.images.shape[2:])
        active[some] += on.sum((0, 2, 3)).to(active)
        _add_overlap(both[:, some], on, labels, pixels)
    return both, active


def _maps(probing: Probing, layer: str, start: int) -> Maps:
    parts: Split = probing.once("split", lambda: split(probing.model, layer))
    return maps_of(activations_of(parts.before(probing.batch(start)[0])))


def _active(maps: Maps, thresholds: Tensor, size: torch.Size) -> Tensor:
    """Where in the image each neuron is above its threshold: images x neurons x height x width."""
    if maps.shape[2:] == (1, 1):
        return (maps > thresholds[:, None, None]).expand(-1, -1, *size)
    upsampled = F.interpolate(maps, size=tuple(size), mode="bilinear", align_corners=False)
    return upsampled > thresholds[:, None, None]


def _add_overlap(both: Tensor, on: Tensor, labels: Labels, pixels: PixelClasses | None) -> None:
    """Add, to each class's row, how many of its pixels each neuron is active on."""
    if pixels is None:
        both.index_add_(0, labels.to(both.device), on.sum((2, 3)).to(both))
        return
    given = pixels >= 0
    counts = on.movedim(1, 3)[given.to(on.device)].to(both)
    both.index_add_(0, pixels[given].long().to(both.device), counts)


def _source(masks: PixelClasses | None) -> str:
    if masks is None:
        return "labels"
    digest = hashlib.sha256(repr(tuple(masks.shape)).encode())
    for some in masks.split(500):
        digest.update(some.to(torch.int32).cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def _class_area(data: Data, masks: PixelClasses | None, classes: int) -> Tensor:
    """How many pixels each class has in the data."""
    if len(data.class_names) != classes:
        raise DataError(
            f"The model has {classes} logits but the data {len(data.class_names)} classes."
        )
    height, width = data.images.shape[2:]
    if masks is None:
        area = torch.bincount(data.labels.cpu(), minlength=classes) * height * width
    else:
        _check_masks(masks, (len(data), height, width), classes)
        area = torch.bincount(masks[masks >= 0].long(), minlength=classes)
    empty = [data.class_names[c] for c in (area == 0).nonzero().flatten().tolist()]
    if empty:
        names = ", ".join(map(repr, empty[:5]))
        more = f" and {len(empty) - 5} more" if len(empty) > 5 else ""
        raise DataError(
            f"The probe set has no {'image' if masks is None else 'pixel'} of class {names}{more}; "
            "NetDissect needs one of each class."
        )
    return area.double()


def _check_masks(masks: Tensor, shape: tuple[int, ...], classes: int) -> None:
    if tuple(masks.shape) != shape:
        raise DataError(
            f"The masks have shape {tuple(masks.shape)}; expected {shape}, a class for each pixel "
            "of each image."
        )
    low, high = int(masks.min()), int(masks.max())
    if low < -1 or high >= classes:
        raise DataError(
            f"The masks hold class {low if low < -1 else high}; expected 0 to {classes - 1}, or "
            "-1 where a pixel belongs to no class."
        )
