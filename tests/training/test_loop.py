"""The training loop: its schedule, its augmentation, when it stops and what it keeps."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

from igdefense.attacks.pgd import PGD
from igdefense.data.data import Data
from igdefense.errors import SettingError
from igdefense.training.augment import crop_and_flip, distort
from igdefense.training.awp import AWP
from igdefense.training.card import measure
from igdefense.training.loop import DivergedError, train
from igdefense.training.recipe import Objective, Recipe, Stateful, Step
from igdefense.training.recipes import FAT, LASAT
from igdefense.training.schedule import Schedule
from igdefense.training.state import OtherTrainingError
from igdefense.training.watchdog import Watchdog


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

    def objective(
        self, model: nn.Module, images: Tensor, labels: Tensor, step: Step, rng: Generator
    ) -> Objective:
        with torch.no_grad():
            model.get_parameter("gain").fill_(self.gains[len(self.done)])
        self.done.append(1)
        return lambda model: 0 * model(images).sum()


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


def test_a_piecewise_rate_falls_to_a_tenth_twice() -> None:
    schedule = Schedule(peak=0.2, shape="piecewise")
    rates = [schedule.rate(progress) for progress in (0.01, 0.5, 0.51, 0.75, 0.76, 1)]
    assert rates == pytest.approx([0.2, 0.2, 0.02, 0.02, 0.002, 0.002])


def test_an_unknown_schedule_is_refused() -> None:
    with pytest.raises(SettingError, match="No schedule 'cosine'; expected one of: cyclic, piece"):
        Schedule(shape="cosine")


def test_a_model_that_stays_at_chance_stops_after_the_epoch_and_says_where(tmp_path: Path) -> None:
    labels = torch.arange(200) % 2
    images = (0.2 + 0.6 * labels.float()).view(-1, 1, 1, 1).expand(-1, 3, 8, 8)
    constant = Scripted((0.0,) * 100)
    says = (
        r"diverged in epoch 1, step 100 of 100: 50.0% of the watched images are right, "
        r"no better than chance \(50.0%\)"
    )
    with pytest.raises(DivergedError, match=says):
        train(constant, Brightness(), Data(images, labels), Schedule(batch=2), tmp_path)


@dataclass(frozen=True)
class Cliff:
    """Its loss is 0, and so steep there that the step is no number."""

    eps: float = 8 / 255

    def objective(
        self, model: nn.Module, images: Tensor, labels: Tensor, step: Step, rng: Generator
    ) -> Objective:
        return lambda model: (0 * model.get_parameter("gain")).sqrt()


def test_weights_that_are_no_numbers_are_found_at_the_end_of_the_epoch(
    shades: Data, tmp_path: Path
) -> None:
    with pytest.raises(DivergedError, match="epoch 1, step 1 of 1: weights are not finite"):
        run(Cliff(), Brightness(), shades, tmp_path)


def mixed(count: int) -> Data:
    """Shades that only the last of them makes hard: class 1 just above the border."""
    labels = torch.arange(count) % 2
    images = (0.3 + 0.4 * labels.float()).view(-1, 1, 1, 1).expand(-1, 3, 8, 8)
    return Data(images, labels)


class Bent(Brightness):
    """A gain of 2 answers right, 1 right without an attack only, 0 class 0 for everything."""

    def forward(self, images: Tensor) -> Tensor:
        bright = images.flatten(1).mean(1) - 0.5
        bright = torch.where(self.gain < 2, bright - 0.19 * (bright > 0), bright)
        return torch.stack([torch.full_like(bright, 1e-6), self.gain * bright], dim=1)


def test_the_most_robust_epoch_on_held_out_images_is_kept(tmp_path: Path) -> None:
    model = Bent()
    schedule = Schedule(epochs=3, batch=12, weight_decay=0)
    dog = Watchdog(validation=8, collapse=0)
    records = train(Scripted((1.0, 2.0, 1.5)), model, mixed(20), schedule, tmp_path, watchdog=dog)
    robust = [record["pgd10"] for record in records]
    assert robust[1] == 1.0 > max(robust[0], robust[2])
    assert model.gain.item() == 2.0


def test_training_stops_when_held_out_images_see_nothing_better_for_long(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    schedule = Schedule(epochs=9, batch=12, weight_decay=0)
    dog = Watchdog(validation=8, collapse=0, patience=2)
    with caplog.at_level("INFO"):
        records = train(
            Scripted((2.0, 1.5, 1.0)), Bent(), mixed(20), schedule, tmp_path, watchdog=dog
        )
    assert len(records) == 3
    assert "no better on held-out images for 2 epochs" in caplog.text


def test_held_out_images_are_drawn_by_the_seed_and_not_trained_on() -> None:
    data = Data(torch.arange(50.0).view(-1, 1, 1, 1) / 50, torch.arange(50) % 2)
    train_on, held = Watchdog(validation=20).split(data, seed=3)
    values = [sorted(part.images[:].flatten().tolist()) for part in (train_on, held)]
    assert sorted(values[0] + values[1]) == data.images[:].flatten().tolist()
    assert len(held) == 20
    again, other = (Watchdog(validation=20).split(data, seed)[1] for seed in (3, 4))
    assert torch.equal(again.images[:], held.images[:])
    assert not torch.equal(other.images[:], held.images[:])


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"validation": -1}, "validation is at least 0"),
        ({"patience": 2}, "patience needs held-out images"),
        ({"validation": 5, "patience": 0}, "patience at least 1"),
    ],
)
def test_a_watchdog_that_makes_no_sense_is_refused(settings: dict[str, int], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        Watchdog(**settings)


@dataclass(frozen=True)
class Stopped:
    """A recipe that is interrupted before a step."""

    recipe: Recipe
    at: int

    @property
    def eps(self) -> float:
        return self.recipe.eps

    def __repr__(self) -> str:
        return repr(self.recipe)

    def state_dict(self) -> dict[str, Any]:
        return {} if not isinstance(self.recipe, Stateful) else self.recipe.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise AssertionError("an interrupted recipe is not resumed in these tests")

    def objective(
        self, model: nn.Module, images: Tensor, labels: Tensor, step: Step, rng: Generator
    ) -> Objective:
        if step.number == self.at:
            raise KeyboardInterrupt
        return self.recipe.objective(model, images, labels, step, rng)


def small_net() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(3, 4, 3, stride=2),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(36, 2),
        ).eval()


@pytest.mark.parametrize("at", [4, 7], ids=["between epochs", "inside an epoch"])
@pytest.mark.parametrize(
    "make",
    [lambda: FAT(eps=0.05), lambda: AWP(LASAT(eps=0.05, steps=2, interval=3))],
    ids=["fat", "las-at with awp"],
)
def test_an_interrupted_training_ends_with_the_same_weights(
    make: Callable[[], Recipe], at: int, tmp_path: Path
) -> None:
    drawn = Generator().manual_seed(0)
    data = Data(torch.rand(40, 3, 8, 8, generator=drawn), torch.arange(40) % 2)
    nets = [small_net(), small_net()]

    def go(recipe: Recipe, net: nn.Module, out: str) -> list[dict[str, float]]:
        return train(
            recipe,
            net,
            data,
            Schedule(epochs=3, batch=8),
            tmp_path / out,
            watchdog=Watchdog(validation=8, collapse=0),
            ema=0.9,
            checkpoint_every=0,
            progress=False,
        )

    whole = go(make(), nets[0], "whole")
    with pytest.raises(KeyboardInterrupt):
        go(Stopped(make(), at), small_net(), "parts")
    parts = go(make(), nets[1], "parts")
    for record in (*whole, *parts):
        del record["seconds"]
    assert parts == whole
    one, two = (net.state_dict() for net in nets)
    torch.testing.assert_close(one, two, rtol=0, atol=0)


def test_a_checkpoint_of_other_settings_is_not_gone_on_from(shades: Data, tmp_path: Path) -> None:
    run(Scripted((1.0,) * 4), Brightness(), shades, tmp_path)
    with pytest.raises(OtherTrainingError, match="belongs to a training with other settings"):
        train(Scripted((1.0,) * 4), Brightness(), shades, Schedule(epochs=4), tmp_path, ema=0.5)


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


def test_a_distorted_image_is_another_image_of_pixels_and_depends_on_the_seed_alone() -> None:
    images = torch.rand(16, 3, 8, 8, generator=Generator().manual_seed(1))
    seen = [distort(images, Generator().manual_seed(seed)) for seed in (0, 0, 1)]
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])
    assert float(seen[0].min()) >= 0
    assert float(seen[0].max()) <= 1
    assert all(not torch.allclose(a, b) for a, b in zip(seen[0], images, strict=True))


def test_the_loss_of_fat_is_that_of_the_worst_image_when_the_model_is_linear() -> None:
    model = Brightness()
    images, labels = torch.full((4, 3, 8, 8), 0.6), torch.ones(4, dtype=torch.long)
    lost = FAT(eps=0.1, step=0.2).objective(
        model, images, labels, Step(), Generator().manual_seed(0)
    )
    worst = nn.functional.cross_entropy(model(images - 0.1), labels)
    torch.testing.assert_close(lost(model), worst)


def test_the_card_s_pgd_finds_exactly_the_images_within_reach() -> None:
    shades = torch.tensor([0.45, 0.49, 0.51, 0.55]).view(-1, 1, 1, 1).expand(-1, 3, 8, 8)
    data = Data(shades, torch.tensor([0, 0, 1, 1]))
    card = measure(Brightness(), data, eps=8 / 255, steps=5, progress=False)
    assert (card["clean"], card["pgd5"], card["images"]) == (1.0, 0.5, 4)


def test_a_measurement_goes_on_from_the_counts_it_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shades = torch.tensor([0.45, 0.49, 0.51, 0.55]).view(-1, 1, 1, 1).expand(-1, 3, 8, 8)
    data, kept = Data(shades, torch.tensor([0, 0, 1, 1])), tmp_path / "kept.json"
    model, calls = Brightness(), []
    attack = PGD.__call__

    def interrupted(self: PGD, view: Any, images: Tensor, labels: Tensor, rng: Any) -> Tensor:
        calls.append(images[:, 0, 0, 0].tolist())
        if len(calls) == 2:
            raise KeyboardInterrupt
        return attack(self, view, images, labels, rng)

    monkeypatch.setattr(PGD, "__call__", interrupted)
    settings = {"steps": 5, "batch_size": 2, "kept": kept, "progress": False}
    with pytest.raises(KeyboardInterrupt):
        measure(model, data, **settings)  # type: ignore[arg-type]
    card = measure(model, data, **settings)  # type: ignore[arg-type]
    assert (card["clean"], card["pgd5"], card["images"]) == (1.0, 0.5, 4)
    assert [len(call) for call in calls] == [2, 2, 2]
    assert calls[1] == calls[2] == pytest.approx([0.51, 0.55])
