"""Balanced subsets and parts of data."""

import pytest
import torch

from igdefense.data import Data, Pixels, balanced
from igdefense.errors import DataError, SettingError

LABELS = torch.tensor([0, 1, 2, 2, 1, 0, 0, 0, 1, 2, 2, 2])
IMAGES = torch.arange(12, dtype=torch.uint8).view(12, 1, 1, 1).expand(12, 3, 2, 2).contiguous()
DATA = Data(Pixels(IMAGES), LABELS, ["ant", "bee", "cow"])


def positions(data: Data) -> list[int]:
    return [round(255 * value) for value in data.images[:][:, 0, 0, 0].tolist()]


def test_every_class_has_its_share_in_turn() -> None:
    assert balanced(DATA, 3, seed=0).labels.tolist() == [0, 1, 2] * 3


def test_images_keep_their_labels_and_none_comes_twice() -> None:
    part = balanced(DATA, 3, seed=0)
    chosen = positions(part)
    assert len(set(chosen)) == 9
    assert LABELS[chosen].tolist() == part.labels.tolist()


def test_one_seed_gives_one_subset_and_another_seed_another() -> None:
    subsets = [positions(balanced(DATA, 2, seed=seed)) for seed in range(8)]
    assert positions(balanced(DATA, 2, seed=0)) == subsets[0]
    assert len({tuple(subset) for subset in subsets}) > 1


def test_a_smaller_subset_begins_the_larger_one() -> None:
    larger = positions(balanced(DATA, 3, seed=5))
    assert positions(balanced(DATA, 2, seed=5)) == larger[:6]


def test_the_global_generator_plays_no_part() -> None:
    state = torch.get_rng_state()
    balanced(DATA, 2, seed=0)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_class_with_too_few_images_is_named() -> None:
    with pytest.raises(DataError, match="Class 'bee' has 3 images, fewer than the 4 asked for"):
        balanced(DATA, 4, seed=0)


def test_none_of_each_class_is_refused() -> None:
    with pytest.raises(SettingError, match="per_class must be at least 1, got 0"):
        balanced(DATA, 0, seed=0)


def test_bytes_stay_bytes_in_a_part() -> None:
    part = DATA[[3, 1]]
    assert isinstance(part.images, Pixels)
    assert positions(part) == [3, 1]
    assert part.labels.tolist() == [2, 1]
