"""Data by string."""

from pathlib import Path

import numpy as np
import pytest
import torch

from igdefense.data import Pixels, load_data
from igdefense.data.cifar10 import CLASSES, RECORD
from igdefense.errors import DataError, IGDefenseError, SettingError


@pytest.fixture(scope="module")
def cifar10(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """A folder with a test batch of random records, and those records."""
    table = np.random.default_rng(0).integers(0, 256, (10_000, RECORD), dtype=np.uint8)
    table[:, 0] %= 10
    folder = tmp_path_factory.mktemp("cifar10")
    table.tofile(folder / "test_batch.bin")
    return folder, table


def test_cifar10_gives_the_bytes_of_its_records(cifar10: tuple[Path, np.ndarray]) -> None:
    folder, table = cifar10
    data = load_data("cifar10:test", root=folder)
    assert isinstance(data.images, Pixels)
    assert np.array_equal(data.images.bytes.flatten(1).numpy(), table[:, 1:])
    assert data.labels.tolist() == table[:, 0].tolist()
    assert data.class_names == tuple(CLASSES)


def test_n_takes_the_first_images_and_keeps_them_as_bytes(
    cifar10: tuple[Path, np.ndarray],
) -> None:
    folder, table = cifar10
    data = load_data("cifar10:test", root=folder, n=7)
    assert isinstance(data.images, Pixels)
    assert len(data) == 7
    assert np.array_equal(data.images.bytes.flatten(1).numpy(), table[:7, 1:])


def test_more_images_than_there_are_is_refused(cifar10: tuple[Path, np.ndarray]) -> None:
    with pytest.raises(DataError, match="holds 10,000 images, fewer than the 10,001 asked for"):
        load_data("cifar10:test", root=cifar10[0], n=10_001)


def test_cifar10_is_never_unpickled(
    cifar10: tuple[Path, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("unpickled")

    for name in ("pickle.load", "pickle.loads", "pickle.Unpickler", "torch.load"):
        monkeypatch.setattr(name, refuse)
    assert len(load_data("cifar10:test", root=cifar10[0])) == 10_000


def test_cifar10s_python_version_is_not_taken_for_the_binary_one(tmp_path: Path) -> None:
    (tmp_path / "test_batch").write_bytes(b"\x80\x02}q\x01.")
    with pytest.raises(DataError, match=r"test_batch\.bin is missing.*igd data cifar10"):
        load_data("cifar10:test", root=tmp_path)


def test_a_short_cifar10_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "test_batch.bin").write_bytes(bytes(RECORD))
    with pytest.raises(DataError, match=r"has 3,073 bytes; .* has 30,730,000"):
        load_data("cifar10:test", root=tmp_path)


@pytest.mark.parametrize(
    "spec", ["cifar10", "cifar10:valid", "embedded:train", "folder:", "images.npy", "mnist", ""]
)
def test_an_unknown_string_lists_the_known_ones(spec: str) -> None:
    with pytest.raises(DataError) as error:
        load_data(spec)
    for form in ("embedded:probe", "cifar10:test", "folder:PATH", "FILE.npz"):
        assert form in str(error.value)


@pytest.mark.parametrize("settings", [{"n": 0}, {"n": -1}, {"size": 0}])
def test_settings_below_one_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(SettingError, match="must be at least 1"):
        load_data("folder:anything", n=settings.get("n"), size=settings.get("size"))


def test_settings_that_would_be_ignored_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="size is for folder, imagenet, hf"):
        load_data("embedded:test", size=32)
    with pytest.raises(DataError, match="root is for cifar10"):
        load_data("embedded:test", root=tmp_path)


@pytest.mark.parametrize(("name", "count"), [("probe", 2000), ("test", 1000)])
def test_the_embedded_data_is_balanced(name: str, count: int) -> None:
    try:
        data = load_data(f"embedded:{name}")
    except IGDefenseError as error:
        if "not in this installation" in str(error):
            pytest.skip(f"embedded:{name} is not made yet")
        raise
    assert tuple(data.images.shape) == (count, 3, 32, 32)
    assert torch.bincount(data.labels).tolist() == [count // 10] * 10
