"""Is it a classifier in eval mode that takes these images and returns logits?"""

import torch
from torch import Tensor, nn

from igdefense.errors import IGDefenseError, ModelError
from igdefense.types import Images


def check_eval(model: nn.Module) -> None:
    """Refuse a model of which any part is in train mode."""
    parts = [name for name, module in model.named_modules() if module.training]
    if parts:
        where = "" if parts[0] == "" else f" in part (layer {parts[0]!r})"
        raise ModelError(
            f"{type(model).__name__} is in train mode{where}, where batch norm and dropout change "
            "its answers: call .eval() on it."
        )


def check_model(model: nn.Module, images: Images) -> int:
    """The number of classes of a classifier whose outputs are logits."""
    logits = _outputs(model, images)
    sums = logits.double().sum(dim=1)
    if (logits >= 0).all() and torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        raise ModelError(
            "The model's outputs look like probabilities; return logits: leave out its softmax."
        )
    return logits.shape[1]


def check_classifier(model: nn.Module, images: Images) -> int:
    """The number of classes; probabilities pass, as an evaluation tells of them by itself."""
    return _outputs(model, images).shape[1]


def _outputs(model: nn.Module, images: Images) -> Tensor:
    """From one forward pass over a few images."""
    check_eval(model)
    size = " x ".join(map(str, images.shape[1:]))
    try:
        with torch.no_grad():
            logits: object = model(images)
    except IGDefenseError:
        raise
    except Exception as error:  # whatever the model's own code raises
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"The model cannot take images of {size}: {reason} "
            "Give images of the size it was trained on."
        ) from error
    return _checked(logits, len(images))


def _checked(logits: object, count: int) -> Tensor:
    if not isinstance(logits, Tensor):
        raise ModelError(
            f"The model returns a {type(logits).__name__}; expected a tensor of logits "
            "(batch, classes). Wrap it in a module that returns only those."
        )
    came = f"{tuple(logits.shape)} {logits.dtype}"
    if logits.ndim != 2 or not logits.is_floating_point() or logits.shape[1] < 2:
        raise ModelError(
            f"The model returns {came}; expected floating-point logits (batch, classes) "
            "of at least 2 classes. Wrap it in a module that returns those."
        )
    if len(logits) != count:
        raise ModelError(
            f"The model returns {came} for {count} images; expected one row for each image. "
            "Check what its forward does with the batch axis."
        )
    if not logits.isfinite().all():
        raise ModelError(
            "The model returns NaN or infinite logits; check its weights and its normalisation."
        )
    return logits
