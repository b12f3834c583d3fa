"""A folder of images."""

import logging
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from igdefense.data import balanced, load_data
from igdefense.data.sources import FolderImages
from igdefense.errors import DataError

COUNT = {"ant": 3, "bee": 4, "cow": 2}


def picture(seed: int, height: int = 6, width: int = 8) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def as_tensor(pixels: np.ndarray) -> Tensor:
    return torch.from_numpy(pixels).permute(2, 0, 1).float() / 255


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Nine images whose seeds are their positions; written in another order."""
    positions = [(name, i) for name, count in COUNT.items() for i in range(count)]
    for seed, (name, i) in reversed(list(enumerate(positions))):
        (tmp_path / name).mkdir(exist_ok=True)
        Image.fromarray(picture(seed)).save(tmp_path / name / f"{i}.png")
    return tmp_path


def test_png_files_come_back_pixel_by_pixel(folder: Path) -> None:
    data = load_data(f"folder:{folder}")
    expected = torch.stack([as_tensor(picture(seed)) for seed in range(9)])
    assert torch.equal(data.images[:], expected)
    assert data.labels.tolist() == [0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert data.class_names == ("ant", "bee", "cow")


@pytest.mark.parametrize(
    ("index", "seeds"),
    [
        (slice(2, 4), [2, 3]),
        ([8, 0, 0], [8, 0, 0]),
        ([-1], [8]),
        (torch.tensor([5, 1]), [5, 1]),
        (torch.arange(9) == 4, [4]),
        (slice(0, 0), []),
    ],
)
def test_any_index_gives_the_images_it_would_of_a_tensor(
    folder: Path, index: slice | list[int] | Tensor, seeds: list[int]
) -> None:
    images = load_data(f"folder:{folder}").images[index]
    expected = [as_tensor(picture(seed)) for seed in seeds]
    assert torch.equal(images, torch.stack(expected) if expected else torch.empty(0, 3, 6, 8))


def test_images_are_decoded_only_when_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[str] = []
    decode = FolderImages._decode

    def counted(self: FolderImages, path: str) -> Tensor:
        decoded.append(Path(path).parent.name)
        return decode(self, path)

    monkeypatch.setattr(FolderImages, "_decode", counted)
    data = load_data(f"folder:{folder}")
    part = balanced(data, 2, seed=0)[0:3]
    assert decoded == []
    assert part.images.shape == (3, 3, 6, 8)
    assert len(part.images[:]) == 3
    assert decoded == ["ant", "bee", "cow"]


def test_n_reads_the_first_files_only(folder: Path) -> None:
    (folder / "cow" / "1.png").write_bytes(b"no image")
    data = load_data(f"folder:{folder}", n=8)
    assert torch.equal(data.images[[7]][0], as_tensor(picture(7)))
    assert data.class_names == ("ant", "bee", "cow")
    with pytest.raises(DataError, match="holds 9 images, fewer than the 10 asked for"):
        load_data(f"folder:{folder}", n=10)


def test_an_unreadable_image_is_named(folder: Path) -> None:
    (folder / "bee" / "2.png").write_text("no image")
    with pytest.raises(DataError, match=r"bee/2\.png is not a readable image"):
        load_data(f"folder:{folder}")


def test_a_truncated_image_is_named_when_it_is_read(folder: Path) -> None:
    path = folder / "bee" / "2.png"
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(DataError, match=r"bee/2\.png is not a readable image"):
        load_data(f"folder:{folder}").images[:]


def test_another_size_is_named_with_both(folder: Path) -> None:
    Image.fromarray(picture(0, 6, 9)).save(folder / "cow" / "0.png")
    with pytest.raises(DataError, match=r"cow/0\.png is 9 x 6 but .*ant/0\.png is 8 x 6"):
        load_data(f"folder:{folder}")


def test_size_keeps_the_middle_of_the_longer_side(folder: Path) -> None:
    data = load_data(f"folder:{folder}", size=6)
    assert torch.equal(data.images[[3]][0], as_tensor(picture(3))[:, :, 1:7])


@pytest.mark.parametrize("shape", [(40, 50), (51, 40), (3, 7), (16, 16)])
def test_size_brings_every_shape_to_one(shape: tuple[int, int], tmp_path: Path) -> None:
    (tmp_path / "only").mkdir()
    grey = np.full((*shape, 3), 77, dtype=np.uint8)
    Image.fromarray(grey).save(tmp_path / "only" / "a.bmp")
    images = load_data(f"folder:{tmp_path}", size=16).images[:]
    assert torch.equal(images, torch.full((1, 3, 16, 16), 77 / 255))


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "LA", "1"])
def test_other_modes_become_rgb_and_are_logged_once(
    mode: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "only").mkdir()
    for name in "ab":
        Image.new("RGB", (5, 5), "white").convert(mode).save(tmp_path / "only" / f"{name}.png")
    Image.new("RGB", (5, 5), "white").save(tmp_path / "only" / "c.png")
    with caplog.at_level(logging.INFO):
        images = load_data(f"folder:{tmp_path}").images
        assert torch.equal(images[:], torch.ones(3, 3, 5, 5))
        assert torch.equal(images[:], torch.ones(3, 3, 5, 5))
    assert [record.getMessage() for record in caplog.records] == [
        f"2 of 3 images ({mode}) become RGB."
    ]


def test_a_palette_with_transparency_keeps_its_colours(tmp_path: Path) -> None:
    (tmp_path / "only").mkdir()
    image = Image.new("P", (4, 4), 1)
    image.putpalette([0, 0, 0, 255, 0, 51])
    image.save(tmp_path / "only" / "a.png", transparency=bytes([0, 128]))
    images = load_data(f"folder:{tmp_path}").images[:]
    assert torch.equal(images[0, :, 0, 0], torch.tensor([1.0, 0.0, 0.2]))


def test_sixteen_bits_are_refused(tmp_path: Path) -> None:
    (tmp_path / "only").mkdir()
    deep = np.full((4, 4), 40_000, dtype=np.uint16)
    Image.fromarray(deep).save(tmp_path / "only" / "a.png")
    with pytest.raises(DataError, match=r"a\.png has more than 8 bits"):
        load_data(f"folder:{tmp_path}")


def test_an_empty_class_is_named(folder: Path) -> None:
    (folder / "dog").mkdir()
    (folder / "dog" / "notes.txt").write_text("no images yet")
    with pytest.raises(DataError, match="dog holds no images"):
        load_data(f"folder:{folder}")


def test_hidden_folders_and_files_are_no_data(folder: Path) -> None:
    (folder / ".cache").mkdir()
    (folder / "ant" / "._0.png").write_bytes(b"resource fork")
    assert len(load_data(f"folder:{folder}")) == 9


def test_a_folder_without_classes_and_no_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no sub-folders"):
        load_data(f"folder:{tmp_path}")
    with pytest.raises(DataError, match="none is not a folder"):
        load_data(f"folder:{tmp_path / 'none'}")


def test_files_are_decoded_by_several_threads_and_one_batch_ahead(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[str] = set()
    started: list[str] = []
    decode = FolderImages._decode

    def noted(self: FolderImages, path: str) -> Tensor:
        threads.add(threading.current_thread().name)
        started.append(path)
        return decode(self, path)

    monkeypatch.setattr(FolderImages, "_decode", noted)
    data = load_data(f"folder:{folder}")
    batches = data.batches(4)
    first, _ = next(batches)
    for _ in range(200):  # the second batch is read while the first is in use
        if len(started) == 8:
            break
        time.sleep(0.01)
    assert len(started) == 8
    assert all(name.startswith("images") for name in threads)
    rest = [images for images, _ in batches]
    assert torch.equal(torch.cat([first, *rest]), data.images[:])


def test_a_batch_that_cannot_be_read_is_an_error_of_its_own(folder: Path) -> None:
    path = folder / "cow" / "1.png"
    path.write_bytes(path.read_bytes()[:60])
    batches = load_data(f"folder:{folder}").batches(4)
    next(batches)
    next(batches)
    with pytest.raises(DataError, match=r"cow/1\.png is not a readable image"):
        next(batches)
