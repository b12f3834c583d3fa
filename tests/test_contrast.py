"""The recipe of the embedded encoder, where its loss is known."""

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from igdefense.data.data import Data
from igdefense.randomness import generator
from igdefense.rankings.encoders.dual import DualEncoder
from igdefense.training.contrast import Contrastive, zero_shot
from igdefense.training.recipe import Step

NAMES = ("cat", "dog", "bird")


class Oracle(DualEncoder):
    """Reads the class off the first pixel; images and captions of class c are the c-th axis."""

    def forward(self, images: Tensor) -> Tensor:
        return torch.eye(3)[(images[:, 0, 0, 0] * 2).round().long()]

    def texts(self, texts: Sequence[str]) -> Tensor:
        return torch.eye(3)[[next(i for i, n in enumerate(NAMES) if n in t) for t in texts]]


def coloured(labels: Tensor) -> Tensor:
    return (labels / 2)[:, None, None, None].expand(-1, 3, 32, 32)


def test_captions_of_one_class_are_all_right() -> None:
    """Six images, two of each class: two captions at cosine 1, four at 0, in both directions."""
    labels = torch.tensor([0, 1, 2, 2, 1, 0])
    recipe = Contrastive(class_names=NAMES, temperature=0.5)
    lost = recipe.objective(Oracle(), coloured(labels), labels, Step(), generator(0))
    loss = lost(Oracle())
    assert float(loss) == pytest.approx(math.log(2 * math.exp(2) + 4) - 2)


class Particular(Oracle):
    """Holds `a cat` and `cat` to be different things."""

    def texts(self, texts: Sequence[str]) -> Tensor:
        return torch.eye(3)[[int(text.startswith("a ")) for text in texts]]


def test_a_caption_s_target_is_spread_over_its_class() -> None:
    """Each of two cats fits one of the two captions: half of the target is on the other."""
    recipe = Contrastive(class_names=("cat",), templates=("{}", "a {}"), temperature=0.5)
    seed = next(
        s for s in range(20) if torch.randint(2, (2,), generator=generator(s)).tolist() == [0, 1]
    )
    images, labels = coloured(torch.tensor([0, 1])), torch.tensor([0, 0])
    lost = recipe.objective(Particular(), images, labels, Step(), generator(seed))
    loss = lost(Particular())
    assert float(loss) == pytest.approx(math.log(math.exp(2) + 1) - 1)


def test_zero_shot_counts_the_nearest_bare_name() -> None:
    labels = torch.tensor([0, 1, 2, 2])
    data = Data(coloured(torch.tensor([0, 1, 2, 0])), labels, NAMES)
    assert zero_shot(Oracle(), data, NAMES, batch_size=3) == 0.75
