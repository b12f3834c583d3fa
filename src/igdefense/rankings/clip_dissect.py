"""CD-IR: a neuron matters to a class as much as it fires on images that look like its name."""

import hashlib
import logging
from collections.abc import Sequence
from contextlib import ExitStack

import torch
from torch import Tensor, nn

from igdefense import __version__
from igdefense.data.data import Data
from igdefense.errors import ModelError, SettingError
from igdefense.layers import reading
from igdefense.models.check import check_model
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.rankings.batches import Probing
from igdefense.rankings.cache import Cache, default_folder
from igdefense.rankings.encoders.encoder import Encoder, load_encoder
from igdefense.rankings.maps import averages
from igdefense.rankings.prompts import BARE, check_names, check_templates, embedded
from igdefense.rankings.ranking import Ranking
from igdefense.rankings.similarities import (
    MEASURES,
    TOP_K,
    Averages,
    Cosines,
    cosine,
    cosine_cubed,
    rank_reorder,
    soft_wpmi,
    wpmi,
)
from igdefense.running.pool import Backend

__all__ = [
    "clip_dissect",
    "clip_dissect_layers",
    "cosine",
    "cosine_cubed",
    "rank_reorder",
    "soft_wpmi",
    "wpmi",
]
log = logging.getLogger(__name__)


def clip_dissect(
    model: nn.Module,
    data: Data,
    layer: str,
    *,
    encoder: str | Encoder = "embedded",
    similarity: str = "soft-wpmi",
    class_names: Sequence[str] | None = None,
    templates: Sequence[str] = BARE,
    top_k: int | None = None,
    batch_size: int = 100,
    cache: Cache | None = None,
    backend: Backend | None = None,
    progress: bool | None = None,
) -> Ranking:
    """Rank a layer by how well its neurons' activations fit the class names (arXiv:2409.15190).

    P holds the cosines of the probe images' and the class names' embeddings; labels play no part.
    The default settings are the paper's, with CLIP ViT-B/16 as `encoder`
    (`open_clip:ViT-B-16/openai`); `embedded` is a small stand-in. `class_names` are the data's by
    default, `templates` (`a photo of a {}`) are averaged, `top_k` is the number of images that
    soft-wpmi (100) and wpmi (28) look at. P and activations are kept in `cache`.
    """
    rankings = clip_dissect_layers(
        model,
        data,
        (layer,),
        encoder=encoder,
        similarity=similarity,
        class_names=class_names,
        templates=templates,
        top_k=top_k,
        batch_size=batch_size,
        cache=cache,
        backend=backend,
        progress=progress,
    )
    return rankings[layer]


@torch.no_grad()
def clip_dissect_layers(
    model: nn.Module,
    data: Data,
    layers: Sequence[str],
    *,
    encoder: str | Encoder = "embedded",
    similarity: str = "soft-wpmi",
    class_names: Sequence[str] | None = None,
    templates: Sequence[str] = BARE,
    top_k: int | None = None,
    batch_size: int = 100,
    cache: Cache | None = None,
    backend: Backend | None = None,
    progress: bool | None = None,
) -> dict[str, Ranking]:
    """As `clip_dissect`, for several layers from one pass of the model over the data."""
    settings = _measure_settings(similarity, top_k, len(data))
    check_templates(templates)
    names = tuple(data.class_names if class_names is None else class_names)
    check_names(names, check_model(model, data.images[:2].to(_device(model))))
    probes = _outputs(model, layers, data.images[:2].to(_device(model)))
    loaded = load_encoder(encoder) if isinstance(encoder, str) else encoder
    store = cache or Cache(default_folder())
    cosines = _cosines(loaded, data, names, templates, batch_size, store, backend, progress)
    fingerprint = weights_fingerprint(model)
    found = _activations(model, fingerprint, probes, data, batch_size, store, backend, progress)
    _warn(names, similarity, top_k, len(data))
    told = {"similarity": similarity, **settings, "templates": "|".join(templates)}
    provenance = {
        "method": "CD-IR",
        "settings": ", ".join(f"{name}={value}" for name, value in told.items()),
        "encoder": loaded.identity,
        "class names": "|".join(names),
        "model": fingerprint,
        "data": data.fingerprint,
        "images": str(len(data)),
        "version": __version__,
    }
    return {
        layer: Ranking(layer, MEASURES[similarity](cosines, found[layer], **settings), provenance)
        for layer in layers
    }


def _cosines(
    encoder: Encoder,
    data: Data,
    names: Sequence[str],
    templates: Sequence[str],
    batch_size: int,
    cache: Cache,
    backend: Backend | None,
    progress: bool | None,
) -> Cosines:
    """P, from the cache, or from the images' embeddings there, or from the images."""
    origin = (encoder.identity, data.fingerprint)
    key = (*origin, *names, "in", *templates)
    cosines = cache.get("cosines", *key)
    if cosines is None:
        prompts = embedded(encoder, names, templates)
        embeddings = cache.get("embeddings", *origin)
        if embeddings is None:
            probing = Probing(encoder, data, batch_size)
            batches = probing.each(embeddings_of_batch, "CD-IR, encoder", backend, progress)
            embeddings = torch.cat(list(batches))
            cache.put(embeddings, "embeddings", *origin)
        cosines = embeddings @ prompts.T
        if not cosines.isfinite().all():
            raise ModelError("The encoder returns NaN or infinite embeddings; check its weights.")
        cache.put(cosines, "cosines", *key)
    return cosines


def _activations(
    model: nn.Module,
    fingerprint: str,
    probes: dict[str, Tensor],
    data: Data,
    batch_size: int,
    cache: Cache,
    backend: Backend | None,
    progress: bool | None,
) -> dict[str, Averages]:
    """Every layer's mean activations, from the cache or from one pass for all that are missing."""
    keys = {
        # Weights do not tell everything about a model: two images' outputs tell the rest.
        layer: (fingerprint, layer, hashlib.sha256(some.numpy().tobytes()).hexdigest())
        for layer, some in probes.items()
    }
    found: dict[str, Tensor] = {}
    for layer, key in keys.items():
        kept = cache.get("activations", data.fingerprint, *key)
        if kept is not None:
            found[layer] = kept
    missing = [layer for layer in keys if layer not in found]
    if missing:
        parts: dict[str, list[Tensor]] = {layer: [] for layer in missing}
        probing = Probing(model, data, batch_size, missing)
        for outputs in probing.each(outputs_of_batch, "CD-IR, activations", backend, progress):
            for layer, some in outputs.items():
                parts[layer].append(some)
        for layer, some_parts in parts.items():
            found[layer] = torch.cat(some_parts)
            if not found[layer].isfinite().all():
                raise ModelError(f"The activations of {layer!r} are NaN or infinite somewhere.")
            cache.put(found[layer], "activations", data.fingerprint, *keys[layer])
    return found


def embeddings_of_batch(probing: Probing, start: int) -> Tensor:
    """What the encoder makes of a batch, as a unit of work."""
    embeddings: Tensor = probing.model.images(probing.batch(start)[0])
    return embeddings.float().cpu()


@torch.no_grad()
def outputs_of_batch(probing: Probing, start: int) -> dict[str, Averages]:
    """The mean activations of a batch at each layer, as a unit of work."""
    return _outputs(probing.model, probing.about, probing.batch(start)[0])


def _outputs(model: nn.Module, layers: Sequence[str], images: Tensor) -> dict[str, Averages]:
    """The neurons' mean activations at each layer, from one forward pass."""
    with ExitStack() as stack:
        outputs = {layer: stack.enter_context(reading(model, layer)) for layer in layers}
        model(images)
    return {layer: averages(_only(layer, out)).float().cpu() for layer, out in outputs.items()}


def _only(layer: str, outputs: list[Tensor]) -> Tensor:
    if not outputs:
        raise SettingError(f"{layer!r} is not called when the model runs; choose another layer.")
    return outputs[0]


def _measure_settings(similarity: str, top_k: int | None, images: int) -> dict[str, int]:
    """The `top_k` of a measure that has one, no larger than the probe set."""
    if similarity not in MEASURES:
        raise SettingError(f"similarity = {similarity!r}; expected one of: {', '.join(MEASURES)}.")
    if similarity not in TOP_K:
        if top_k is not None:
            raise SettingError(f"top_k is for {' and '.join(TOP_K)}; {similarity} has none.")
        return {}
    wanted = TOP_K[similarity] if top_k is None else top_k
    if wanted < 1:
        raise SettingError(f"top_k = {wanted}; expected at least 1.")
    return {"top_k": min(wanted, images)}


def _warn(names: Sequence[str], similarity: str, top_k: int | None, images: int) -> None:
    """Tell of what was done, but may not be what was meant."""
    wanted = top_k or TOP_K.get(similarity, 0)
    if wanted > images:
        log.warning(
            "The probe set has %d images, fewer than top_k = %d: all %d were used.",
            *(images, wanted, images),
        )
    if list(names) == [str(number) for number in range(len(names))]:
        log.warning("The class names are mere numbers; name the classes (--class-names).")


def _device(model: nn.Module) -> torch.device:
    tensors = [*model.parameters(), *model.buffers()]
    return tensors[0].device if tensors else torch.device("cpu")
