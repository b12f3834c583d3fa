"""The recipe of the embedded encoder: images against captions made from their class names."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from igdefense.data.data import Data
from igdefense.rankings.encoders.dual import DualEncoder
from igdefense.training.recipe import Objective, Step
from igdefense.types import Images, Labels

TEMPLATES = (
    "{}",
    "a {}",
    "the {}",
    "a photo of a {}",
    "a photo of the {}",
    "a small photo of a {}",
    "a blurry picture of a {}",
    "this is a {}",
)


@dataclass(frozen=True, kw_only=True)
class Contrastive:
    """CLIP's symmetric loss (arXiv:2103.00020); captions of one class are all each other's right.

    An image's caption is its class name in a template drawn at random. A batch holds many images
    of each class, so the target of an image is spread evenly over the captions of its class, and
    that of a caption over the images of its class.
    """

    class_names: tuple[str, ...]
    templates: tuple[str, ...] = TEMPLATES
    temperature: float = 0.1
    eps: float = 0.0  # no adversary

    def objective(
        self, model: nn.Module, images: Images, labels: Labels, step: Step, rng: Generator
    ) -> Objective:
        drawn = torch.randint(len(self.templates), (len(labels),), generator=rng)
        chosen = (labels * len(self.templates) + drawn).tolist()
        captions = [t.format(name) for name in self.class_names for t in self.templates]
        right = (labels[:, None] == labels).float()
        right = right / right.sum(1, keepdim=True)  # symmetric: so are its columns

        def lost(model: nn.Module) -> Tensor:
            assert isinstance(model, DualEncoder)
            logits = model(images) @ model.texts(captions)[chosen].T / self.temperature
            return (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2

        return lost


@torch.no_grad()
def zero_shot(model: DualEncoder, data: Data, names: Sequence[str], batch_size: int = 250) -> float:
    """The share of images whose nearest class name, bare, is their own."""
    texts = model.texts(names)
    right = sum(
        int(((model(images) @ texts.T).argmax(1) == labels).sum())
        for images, labels in data.batches(batch_size)
    )
    return right / len(data)
