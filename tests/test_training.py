"""The training loop: its schedule, its augmentation, when it stops and what it keeps."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor, nn

from igdefense.data.data import Data
from igdefense.training.augment import crop_and_flip
from igdefense.training.card import measure
from igdefense.training.loop import DivergedError, Schedule, train
from igdefense.training.recipes import FAT, Recipe


class Brightness(nn.Module):
    """Class 1 if the image is brighter than half; `gain` 0 answers class 0 for everything."""

    def __init__(self) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(()))

    def forward(self, images: Tensor) -> Tensor:
        bright = images.flatten(1).mean(1) - 0.5
        return torch.stack([torch.full_like(bright, 1e-6), self.gain * bright], dim=1)


@dataclass(frozen=True)
class Scripted:
    """Sets the gain to its next number at each step; the loss itself teaches nothing."""

    gains: tuple[float, ...]
    eps: float = 8 / 255
    done: list[int] = field(default_factory=list, repr=False)

    def loss(self, model: nn.Module, images: Tensor, labels: Tensor, rng: Generator) -> Tensor:
        with torch.no_grad():
            model.get_parameter("gain").fill_(self.gains[len(self.done)])
        self.done.append(1)
        return 0 * model(images).sum()


@pytest.fixture
def shades() -> Data:
    """Dark images of class 0 and bright ones of class 1, far from the border between them."""
    labels = torch.arange(20) % 2
    images = (0.2 + 0.6 * labels.float()).view(-1, 1, 1, 1).expand(-1, 3, 8, 8)
    return Data(images, labels)


def run(recipe: Recipe, model: nn.Module, data: Data, out: Path) -> list[dict[str, float]]:
    schedule = Schedule(epochs=4, batch=20, weight_decay=0)
    return train(recipe, model, data, schedule, out, progress=False)


def test_catastrophic_overfitting_stops_and_keeps_the_last_good_weights(
    shades: Data, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = Brightness()
    records = run(Scripted((1.0, 2.0, 0.0, 3.0)), model, shades, tmp_path)
    assert [record["pgd10"] for record in records] == [1.0, 1.0, 0.5]
    assert model.gain.item() == 2.0
    assert not model.training
    assert "Catastrophic overfitting in epoch 3: PGD-10 accuracy fell to 0.500" in caplog.text


def test_a_training_that_stays_robust_keeps_its_last_weights(shades: Data, tmp_path: Path) -> None:
    model = Brightness()
    records = run(Scripted((1.0, 2.0, 4.0, 3.0)), model, shades, tmp_path)
    assert (len(records), model.gain.item()) == (4, 3.0)


def test_a_loss_that_is_not_a_number_names_epoch_and_step(shades: Data, tmp_path: Path) -> None:
    schedule = Schedule(epochs=3, batch=10)
    with pytest.raises(DivergedError, match="in epoch 2, step 1 of 2: the loss is not finite"):
        train(Scripted((1, 1, float("nan"))), Brightness(), shades, schedule, tmp_path)


def test_the_rate_rises_to_its_peak_and_falls_to_zero() -> None:
    schedule = Schedule(peak=0.2, warm=0.4)
    rates = [schedule.rate(progress) for progress in (0, 0.2, 0.4, 0.7, 1)]
    assert rates == pytest.approx([0, 0.1, 0.2, 0.1, 0])


def test_without_padding_an_image_is_only_mirrored() -> None:
    image = torch.arange(3 * 4 * 4, dtype=torch.uint8).view(1, 3, 4, 4)
    rng = Generator().manual_seed(0)
    seen = [crop_and_flip(image, rng, padding=0) for _ in range(20)]
    plain = sum(torch.equal(result, image) for result in seen)
    mirrored = sum(torch.equal(result, image.flip(3)) for result in seen)
    assert plain + mirrored == 20
    assert min(plain, mirrored) > 0


def test_a_crop_moves_the_image_and_brings_in_zeros() -> None:
    images = torch.full((50, 3, 8, 8), 7, dtype=torch.uint8)
    moved = crop_and_flip(images, Generator().manual_seed(0), padding=2)
    filled = moved[:, 0].eq(7)
    rows, columns = filled.any(2).sum(1), filled.any(1).sum(1)
    assert torch.equal(filled.sum((1, 2)), rows * columns)
    assert sorted(set(rows.tolist())) == sorted(set(columns.tolist())) == [6, 7, 8]


def test_the_loss_of_fat_is_that_of_the_worst_image_when_the_model_is_linear() -> None:
    model = Brightness()
    images, labels = torch.full((4, 3, 8, 8), 0.6), torch.ones(4, dtype=torch.long)
    loss = FAT(eps=0.1, step=0.2).loss(model, images, labels, Generator().manual_seed(0))
    worst = nn.functional.cross_entropy(model(images - 0.1), labels)
    torch.testing.assert_close(loss, worst)


def test_the_card_s_pgd_finds_exactly_the_images_within_reach() -> None:
    shades = torch.tensor([0.45, 0.49, 0.51, 0.55]).view(-1, 1, 1, 1).expand(-1, 3, 8, 8)
    data = Data(shades, torch.tensor([0, 0, 1, 1]))
    card = measure(Brightness(), data, eps=8 / 255, steps=5, progress=False)
    assert (card["clean"], card["pgd5"], card["images"]) == (1.0, 0.5, 4)
