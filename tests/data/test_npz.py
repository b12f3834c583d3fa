"""Arrays in an .npz file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from igdefense.data import Pixels, load_data
from igdefense.errors import DataError

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 3, 6, 8), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 1, 0])
EXPECTED = torch.from_numpy(IMAGES).float() / 255


def save(folder: Path, **arrays: Any) -> str:
    np.savez(folder / "data.npz", **arrays)
    return str(folder / "data.npz")


@pytest.mark.parametrize("layout", [(0, 1, 2, 3), (0, 2, 3, 1)], ids=["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
def test_both_layouts_and_every_number_give_the_same_images(
    layout: tuple[int, ...], dtype: str, tmp_path: Path
) -> None:
    images = IMAGES if dtype == "uint8" else (IMAGES / 255).astype(dtype)
    data = load_data(save(tmp_path, images=images.transpose(layout), labels=LABELS))
    tolerance = 1e-3 if dtype == "float16" else 1e-7
    torch.testing.assert_close(data.images[:], EXPECTED, rtol=0, atol=tolerance)
    assert data.labels.tolist() == LABELS.tolist()
    assert data.class_names == ("0", "1", "2")


def test_bytes_stay_bytes(tmp_path: Path) -> None:
    data = load_data(save(tmp_path, images=IMAGES.transpose(0, 2, 3, 1), labels=LABELS), n=3)
    assert isinstance(data.images, Pixels)
    assert torch.equal(data.images.bytes, torch.from_numpy(IMAGES[:3]))


@pytest.mark.parametrize("dtype", ["U", "S"])
def test_class_names_are_read(dtype: str, tmp_path: Path) -> None:
    names = np.array(["ant", "bee", "cow"], dtype=dtype)
    data = load_data(save(tmp_path, images=IMAGES, labels=LABELS, class_names=names))
    assert data.class_names == ("ant", "bee", "cow")


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"x": IMAGES, "labels": LABELS}, "has no array images; it holds x, labels"),
        ({"x": IMAGES}, "has no array images or labels"),
        ({"images": IMAGES.astype(int), "labels": LABELS}, "images are int64; expected uint8"),
        ({"images": IMAGES[:, 0], "labels": LABELS}, "images have shape (5, 6, 8)"),
        ({"images": IMAGES[:, :2], "labels": LABELS}, "with 1 or 3 channels"),
        ({"images": IMAGES.astype(float), "labels": LABELS}, "expected [0, 1]"),
        ({"images": IMAGES * np.nan, "labels": LABELS}, "expected [0, 1] without NaN"),
        ({"images": IMAGES, "labels": LABELS[:3]}, "5 images but 3 labels"),
        ({"images": IMAGES, "labels": LABELS - 1}, "Label -1 is outside"),
        ({"images": IMAGES, "labels": LABELS / 2}, "labels are float64 of shape (5,)"),
        ({"images": IMAGES, "labels": np.eye(5, dtype=int)}, "labels are int64 of shape (5, 5)"),
        (
            {"images": IMAGES, "labels": LABELS, "class_names": np.arange(3)},
            "class_names are int64",
        ),
        (
            {"images": IMAGES, "labels": LABELS, "class_names": np.array(["a", None, "c"])},
            "names as text and not as objects",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_named(
    arrays: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as error:
        load_data(save(tmp_path, **arrays))
    assert says in str(error.value)


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


@pytest.mark.parametrize("content", [b"", b"<html></html>", cut], ids=["empty", "page", "cut"])
def test_a_file_of_another_kind_is_refused(content: Any, tmp_path: Path) -> None:
    path = Path(save(tmp_path, images=IMAGES, labels=LABELS))
    path.write_bytes(content if isinstance(content, bytes) else content(path.read_bytes()))
    with pytest.raises(DataError, match=r"data\.npz is not an \.npz file of plain arrays"):
        load_data(str(path))


def test_a_single_array_under_the_name_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", IMAGES)
    (tmp_path / "data.npy").rename(tmp_path / "data.npz")
    with pytest.raises(DataError, match=r"not an \.npz file"):
        load_data(str(tmp_path / "data.npz"))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is missing"):
        load_data(str(tmp_path / "none.npz"))
