"""Data sets of the package datasets, from this disk."""

import importlib
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from igdefense.data import load_data
from igdefense.errors import DataError

datasets: Any = pytest.importorskip("datasets")


def picture(seed: int, width: int = 8, mode: str = "RGB") -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (6, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels).convert(mode)


def table(pictures: list[Image.Image], label: Any = None) -> Any:
    columns = {"title": ["a"] * len(pictures), "img": pictures}
    columns |= {"label": [i % 2 for i in range(len(pictures))]}
    names = label or datasets.ClassLabel(names=["cat", "dog"])
    kinds = {"title": datasets.Value("string"), "img": datasets.Image(), "label": names}
    return datasets.Dataset.from_dict(columns, features=datasets.Features(kinds))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    datasets.disable_progress_bars()
    parts = {"train": table([picture(9)]), "test": table([picture(i) for i in range(5)])}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "saved")
    return tmp_path / "saved"


def test_columns_are_found_by_their_type_and_images_come_back_whole(folder: Path) -> None:
    data = load_data(f"hf:{folder}:test", n=4)
    expected = torch.stack(
        [torch.from_numpy(np.array(picture(i))).permute(2, 0, 1) / 255 for i in range(4)]
    )
    assert torch.equal(data.images[:], expected)
    assert data.labels.tolist() == [0, 1, 0, 1]
    assert data.class_names == ("cat", "dog")


def test_a_split_must_be_named_where_there_are_several(folder: Path) -> None:
    for name in (f"hf:{folder}", f"hf:{folder}:val"):
        with pytest.raises(DataError, match="has the splits train, test: name one"):
            load_data(name)


def test_a_folder_of_parquet_files_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "here").mkdir()
    table([picture(0), picture(1)]).to_parquet(tmp_path / "here" / "train.parquet")
    data = load_data(f"hf:{tmp_path / 'here'}:train")
    assert torch.equal(
        data.images[[1]][0] * 255, torch.from_numpy(np.array(picture(1))).permute(2, 0, 1)
    )


def test_grey_images_become_rgb_and_it_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table([picture(i, mode="L") for i in range(5)]).save_to_disk(tmp_path / "grey")
    with caplog.at_level(logging.INFO, logger="igdefense"):
        images = load_data(f"hf:{tmp_path / 'grey'}").images[:]
    assert torch.equal(images[:, 0], images[:, 2])
    told = [record.message for record in caplog.records if "RGB" in record.message]
    assert told == [f"hf:{tmp_path / 'grey'}: images of another kind (L) become RGB."]


def test_images_of_several_sizes_need_a_size(tmp_path: Path) -> None:
    table([picture(0), picture(1, width=9)]).save_to_disk(tmp_path / "mixed")
    with pytest.raises(DataError, match="image 1 is 9 x 6 but the first is 8 x 6: give `size`"):
        load_data(f"hf:{tmp_path / 'mixed'}").images[:]
    assert load_data(f"hf:{tmp_path / 'mixed'}", size=4).images[:].shape == (2, 3, 4, 4)


def test_a_table_without_images_or_labels_names_its_columns(tmp_path: Path) -> None:
    datasets.Dataset.from_dict({"text": ["a"]}).save_to_disk(tmp_path / "texts")
    with pytest.raises(DataError, match="has the columns text; expected one of images and one"):
        load_data(f"hf:{tmp_path / 'texts'}")


def test_what_is_not_on_this_disk_is_refused_and_nothing_is_fetched(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="neither a folder nor in the cache of datasets"):
        load_data(f"hf:{tmp_path / 'none'}")
    constants: Any = importlib.import_module("huggingface_hub.constants")
    assert not constants.HF_HUB_OFFLINE  # only while we read
