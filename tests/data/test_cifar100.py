"""CIFAR-100: the binary version and PNG strips, both made here from known pixels."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from igdefense.data import cifar100, load_data
from igdefense.errors import DataError
from shared_data import shared_data

NAMES = [f"thing_{i}" for i in range(100)]


@pytest.fixture
def pixels(monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """Ten test images: the real number of them would only be slower."""
    monkeypatch.setattr(cifar100, "COUNT", {"train": 20, "test": 10})
    rng = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (10, 3, 32, 32), dtype=torch.uint8, generator=rng)


def write_binary(folder: Path, pixels: Tensor) -> None:
    folder.mkdir(parents=True)
    fine = torch.arange(10, dtype=torch.uint8)[:, None] * 7
    table = torch.cat([torch.full((10, 1), 3, dtype=torch.uint8), fine, pixels.flatten(1)], dim=1)
    (folder / "test.bin").write_bytes(table.numpy().tobytes())
    (folder / "fine_label_names.txt").write_text("\n".join(NAMES) + "\n")


@pytest.mark.parametrize("nested", ["", "cifar-100-binary"])
def test_the_binary_version_has_the_fine_label_in_its_second_byte(
    nested: str, pixels: Tensor, tmp_path: Path
) -> None:
    write_binary(tmp_path / "here" / nested, pixels)
    data = load_data("cifar100:test", root=tmp_path / "here", n=8)
    assert torch.equal(data.images[:], pixels[:8].float() / 255)
    assert data.labels.tolist() == [0, 7, 14, 21, 28, 35, 42, 49]
    assert list(data.class_names) == NAMES


def test_strips_hold_an_image_a_row(pixels: Tensor, tmp_path: Path) -> None:
    rows = pixels.permute(0, 2, 3, 1).reshape(10, 1024, 3).numpy()
    for i in range(2):
        Image.fromarray(np.ascontiguousarray(rows[5 * i : 5 * i + 5])).save(
            tmp_path / f"test_{i}.png"
        )
    record = {"classes": NAMES, "train": [], "test": list(range(90, 100))}
    (tmp_path / "labels.json").write_text(json.dumps(record))
    data = load_data("cifar100:test", root=tmp_path)
    assert torch.equal(data.images[:], pixels.float() / 255)
    assert data.labels.tolist() == list(range(90, 100))


def test_a_truncated_file_and_an_empty_folder_are_refused(pixels: Tensor, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds neither test\.bin .* nor labels\.json"):
        load_data("cifar100:test", root=tmp_path)
    write_binary(tmp_path / "here", pixels)
    (tmp_path / "here" / "test.bin").write_bytes(b"short")
    with pytest.raises(DataError, match=r"test\.bin has 5 bytes"):
        load_data("cifar100:test", root=tmp_path / "here")


def test_the_real_one_is_balanced() -> None:
    data = load_data("cifar100:test", root=shared_data("cifar100"))
    assert torch.equal(torch.bincount(data.labels), torch.full((100,), 100))
    assert data.class_names[:2] == ("apple", "aquarium_fish")
