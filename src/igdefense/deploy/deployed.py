"""The copy of a model or defense that is exported: batch norms folded, noise drawn by the graph."""

import copy
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from igdefense.defenses.ig_defense import IGDefense
from igdefense.defenses.noise import Noise
from igdefense.defenses.rivals.anti_adversary import AntiAdversary
from igdefense.defenses.rivals.hedge import Hedge
from igdefense.deploy.graph_noise import GraphNoise
from igdefense.errors import ModelError
from igdefense.models.check import check_model
from igdefense.models.folded import quicker
from igdefense.types import Images

WITH_GRADIENTS = (AntiAdversary, Hedge)
TALKATIVE = ("torch.onnx", "onnxscript", "onnx_ir")


def deployed(model: nn.Module, images: Images) -> nn.Module:
    """A copy that computes the same with operators alone; `images` show what it takes."""
    check_model(model, images)
    for part in model.modules():
        if isinstance(part, WITH_GRADIENTS):
            raise ModelError(
                f"{type(part).__name__} follows gradients at each prediction, which an exported "
                "graph does not have; export its base model or an IG-Defense."
            )
    ready = copy.deepcopy(quicker(model, images)).requires_grad_(False)
    for part in ready.modules():
        noise = getattr(part, "noise", None)
        if isinstance(noise, Noise):
            part.noise = GraphNoise(noise, images)  # type: ignore[assignment]
    with torch.no_grad():
        ready(images)  # the split is checked against the model here, not while it is traced
    return ready


def traced(ready: nn.Module, images: Images) -> ExportedProgram:
    """The model as one graph with a dynamic batch."""
    name = type(ready.model if isinstance(ready, IGDefense) else ready).__name__
    try:
        with quietly():
            batch = ({0: Dim.DYNAMIC},)
            return torch.export.export(ready, (images,), dynamic_shapes=batch, strict=False)
    except Exception as error:  # whatever a forward method does when it meets a symbolic value
        reason = next((s for s in str(error).splitlines() if s.strip()), type(error).__name__)
        raise ModelError(
            f"{name} cannot be exported as one graph ({reason.strip().rstrip('.')}). Its forward "
            "may not look at values, and takes the batch size from images.shape[0], not len()."
        ) from error


@contextmanager
def quietly() -> Iterator[None]:
    """Without what the exporters say about their own insides."""
    loggers = [logging.getLogger(name) for name in TALKATIVE]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
