"""ImageNet's folders, crops and choices of 5,000."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from igdefense.data import imagenet, load_data
from igdefense.data.crops import Crop
from igdefense.errors import DataError, SettingError
from igdefense.models.adapters.foreign import import_foreign
from shared_data import shared_data

WNIDS = ("n01440764", "n01443537", "n01484850")


def picture(seed: int, width: int, height: int) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Twelve images; their numbers run across the classes, as in the validation set."""
    for number in range(1, 13):
        inside = tmp_path / "val" / WNIDS[number * 2 % 3]
        inside.mkdir(parents=True, exist_ok=True)
        picture(number, 300 + number, 290).save(
            inside / f"ILSVRC2012_val_{number:08}.JPEG", format="BMP"
        )
    return tmp_path


@pytest.mark.parametrize("name", ["Res256Crop224", "Crop288", "BicubicRes256Crop224", "Crop70"])
@pytest.mark.parametrize("size", [(300, 290), (290, 511), (231, 224), (100, 64)])
def test_a_crop_is_torchvisions(name: str, size: tuple[int, int]) -> None:
    transforms = import_foreign("torchvision.transforms")
    crop, photo = Crop.named(name), picture(1, *size)
    steps = [transforms.CenterCrop(crop.size)]
    if crop.resize:
        how = transforms.InterpolationMode("bicubic" if crop.bicubic else "bilinear")
        steps.insert(0, transforms.Resize(crop.resize, interpolation=how))
    assert np.array_equal(np.array(crop(photo)), np.array(transforms.Compose(steps)(photo)))


@pytest.mark.parametrize("bad", ["", "Crop", "Crop0", "BicubicCrop288", "Res256", "Crop-3"])
def test_an_unknown_crop_is_refused(bad: str) -> None:
    with pytest.raises(DataError, match="expected Res256Crop224, Crop288"):
        Crop.named(bad)


def test_sizes_stand_for_the_two_usual_crops(root: Path) -> None:
    photo = picture(3, 303, 290)  # of the first class
    for size, crop in ((None, "Res256Crop224"), (224, "Res256Crop224"), (288, "Crop288")):
        data = load_data("imagenet:val", root=root, size=size)
        expected = torch.from_numpy(np.array(Crop.named(crop)(photo))).permute(2, 0, 1) / 255
        assert torch.equal(data.images[[0]][0], expected)
    again = load_data("imagenet:val?crop=Crop288", root=root)
    assert torch.equal(again.images[[0]][0], expected)
    with pytest.raises(SettingError, match="say the same thing twice"):
        load_data("imagenet:val?crop=Crop288", root=root, size=224)


def test_the_first_go_by_number_and_val_by_folder(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imagenet, "FIRST", 5)
    assert load_data("imagenet:val", root=root).labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert load_data("imagenet:first-5000", root=root).labels.tolist() == [2, 1, 0, 2, 1]
    monkeypatch.setattr(imagenet, "FIRST", 13)
    with pytest.raises(DataError, match="holds 12 images, fewer than 13"):
        load_data("imagenet:first-5000", root=root)


def test_robustbenchs_images_come_in_its_order(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [f"{WNIDS[n * 2 % 3]}/ILSVRC2012_val_{n:08}.JPEG" for n in (7, 2, 12)]
    monkeypatch.setattr(imagenet, "_robustbench_ids", lambda: ids)
    data = load_data("imagenet:robustbench", root=root)
    assert data.labels.tolist() == [2, 1, 0]
    expected = np.array(Crop.imagenet(224)(picture(7, 307, 290)))
    assert torch.equal(data.images[[0]][0], torch.from_numpy(expected).permute(2, 0, 1) / 255)
    monkeypatch.setattr(imagenet, "_robustbench_ids", lambda: [*ids, f"{WNIDS[0]}/none.JPEG"])
    with pytest.raises(DataError, match=r"none\.JPEG is missing, one of 1 of RobustBench's 4"):
        load_data("imagenet:robustbench", root=root)


@pytest.mark.skipif(find_spec("robustbench") is None, reason="robustbench is not installed")
def test_the_list_in_the_package_is_five_thousand_long() -> None:
    assert len(set(imagenet._robustbench_ids())) == 5000


def test_names_come_from_the_file_beside_the_folders(root: Path) -> None:
    assert load_data("imagenet:val", root=root).class_names == WNIDS
    lines = ["n01440764 tench, Tinca tinca", "n01484850 great white shark"]
    (root / "LOC_synset_mapping.txt").write_text("\n".join(lines))
    names = ("tench, Tinca tinca", "n01443537", "great white shark")
    assert load_data("imagenet:val", root=root).class_names == names


def test_a_place_without_imagenet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"val is missing; expected ImageNet's folders"):
        load_data("imagenet:val", root=tmp_path)


def test_real_photographs_stream_at_both_sizes(tmp_path: Path) -> None:
    files = sorted(shared_data("imagenet-sample").glob("*.jpg"))[:6]
    for file in files:
        inside = tmp_path / "val" / file.name.partition("_")[0]
        inside.mkdir(parents=True, exist_ok=True)
        (inside / file.name).symlink_to(file)
    for size in (224, 288):
        data = load_data("imagenet:val", root=tmp_path, size=size)
        seen = torch.cat([images for images, _ in data.batches(4)])
        assert seen.shape == (6, 3, size, size)
        assert 0.2 < seen.mean() < 0.8
