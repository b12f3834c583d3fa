"""Parts of data by string, and data that share no image."""

from pathlib import Path

import numpy as np
import pytest
import torch

from igdefense.data import load_data
from igdefense.data.data import Data
from igdefense.data.overlap import check_disjoint
from igdefense.errors import DataError


@pytest.fixture
def file(tmp_path: Path) -> str:
    images = np.random.default_rng(0).integers(0, 256, (10, 3, 4, 4), dtype=np.uint8)
    np.savez(tmp_path / "ten.npz", images=images, labels=np.arange(10) % 2)
    return str(tmp_path / "ten.npz")


@pytest.mark.parametrize(
    ("text", "positions"),
    [("2:5", range(2, 5)), (":3", range(3)), ("7:", range(7, 10)), (":", range(10))],
)
def test_a_slice_holds_the_images_at_its_positions(text: str, positions: range, file: str) -> None:
    whole, part = load_data(file), load_data(f"{file}[{text}]")
    assert torch.equal(part.images[:], whole.images[list(positions)])
    assert torch.equal(part.labels, whole.labels[list(positions)])


def test_n_takes_the_first_of_a_slice(file: str) -> None:
    assert load_data(f"{file}[4:9]", n=2).fingerprint == load_data(f"{file}[4:6]").fingerprint


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[5:5]", "holds no images"),
        ("[12:]", "holds no images: there are 10"),
        ("[0:11]", "fewer than the 11 asked for"),
        ("[5:3]", "holds no images"),
        ("[-3:]", "Unknown data"),
    ],
)
def test_slices_that_are_not_there_are_refused(text: str, sentence: str, file: str) -> None:
    with pytest.raises(DataError, match=sentence):
        load_data(file + text)


def test_a_file_may_have_brackets_in_its_name(file: str, tmp_path: Path) -> None:
    odd = tmp_path / "odd[0:1]"
    odd.mkdir()
    with pytest.raises(DataError, match="no sub-folders"):
        load_data(f"folder:{odd}")


def test_shared_images_are_found_by_their_pixels_alone(file: str) -> None:
    whole = load_data(file)
    check_disjoint(whole[:5], whole[5:], ("a", "b"))
    other = Data(whole.images[3:7].clone(), 1 - whole.labels[3:7], whole.class_names)
    with pytest.raises(DataError, match="validation and test share 2 images"):
        check_disjoint(whole[:5], other, ("validation", "test"))
