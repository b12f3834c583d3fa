"""`igd train` from data to card, its resumption and its refusals."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from cli.shell import Igd, Refused
from igdefense import load_model
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.training import loop

SMALL = ("--data", "train.npz", "--test", "test data.npz", "--arch", "resnet18-w2")
SHORT = ("--epochs", 2, "--batch", 32, "--pgd-steps", 2)
TRAIN = ("train", "fat", *SMALL, *SHORT)


@pytest.fixture(autouse=True)
def noise(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name, count in (("train.npz", 64), ("test data.npz", 8)):
        images = rng.integers(0, 256, (count, 3, 32, 32), dtype=np.uint8)
        np.savez(folder / name, images=images, labels=np.arange(count) % 4)


def test_the_card_tells_how_the_model_was_made_and_how_it_does(igd: Igd) -> None:
    ended = igd(*TRAIN, "--seed", 3, "--out", "made")
    assert ended.code == 0, ended.err
    card = json.loads(Path("made/card.json").read_text())
    assert card["command"] == (
        "igd train fat --data train.npz --test 'test data.npz' --arch resnet18-w2 "
        "--epochs 2 --batch 32 --pgd-steps 2 --seed 3 --out made"
    )
    assert (card["seed"], card["epochs"], card["training images"]) == (3, 2, 64)
    assert card["test"]["images"] == 8
    assert 0 <= card["test"]["pgd2"] <= card["test"]["clean"] <= 1
    assert [record["epoch"] for record in card["log"]] == [1, 2]
    assert {"loss", "clean", "pgd10", "seconds"} <= card["log"][0].keys()
    model = load_model("made/model.safetensors", "resnet18-w2")
    assert weights_fingerprint(model) == card["fingerprint"]


def test_an_interrupted_training_ends_with_the_same_bits(
    igd: Igd, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert igd(*TRAIN, "--out", "whole").code == 0
    step = loop._Epoch._step

    def interrupted(self: Any, epoch: int, *rest: Any) -> float:
        if epoch == 1:
            raise KeyboardInterrupt
        return step(self, epoch, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(loop._Epoch, "_step", interrupted)
        assert igd(*TRAIN, "--out", "parts").code == 130
    assert sorted(path.name for path in Path("parts").iterdir()) == ["checkpoint.pt"]
    assert "Resumed parts/checkpoint.pt after epoch 1." in igd(*TRAIN, "--out", "parts").err
    whole, parts = (load_file(f"{name}/model.safetensors") for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_every_option_goes_into_the_card_and_half_precision_is_what_is_measured(igd: Igd) -> None:
    options = ("--attack-steps", 2, "--awp", "--ema", "0.9", "--smoothing", "0.1", "--half")
    more = ("--schedule", "piecewise", "--validation", 16, "--patience", 2, "--tensorboard", "log")
    ended = igd("train", "trades", *SMALL, *SHORT, *options, *more, "--out", "made")
    assert ended.code == 0, ended.err
    card = json.loads(Path("made/card.json").read_text())
    assert card["recipe"].startswith("AWP(recipe=TRADES(eps=0.0313")
    assert "smoothing=0.1, steps=2" in card["recipe"]
    assert card["training images"] == 48
    stored = load_file("made/model.safetensors")
    assert {stored["conv1.weight"].dtype, stored["bn1.weight"].dtype} == {
        torch.float16,
        torch.float32,
    }
    model = load_model("made/model.safetensors", "resnet18-w2")
    assert {value.dtype for value in model.parameters()} == {torch.float32}
    assert weights_fingerprint(model) == card["fingerprint"]
    assert list(Path("log").iterdir())
    assert not Path("made/measured.json").exists()


def test_a_finished_training_is_refused_without_force(igd: Igd, refused: Refused) -> None:
    igd(*TRAIN, "--out", "made")
    assert "made/card.json exists already" in refused(*TRAIN, "--out", "made")
    assert igd(*TRAIN, "--out", "made", "--force").code == 0


@pytest.mark.parametrize("change", [("--seed", 1), ("--arch", "resnet18-w3")])
def test_another_training_replaces_a_finished_one_only_by_force(
    change: tuple[object, ...], igd: Igd, refused: Refused
) -> None:
    igd(*TRAIN, "--out", "made")
    Path("made/card.json").unlink()
    message = refused(*TRAIN, "--out", "made", *change)
    assert "belongs to a training" in message
    assert "start again with --force" in message
    assert igd(*TRAIN, "--out", "made", *change, "--force").code == 0
    assert igd(*TRAIN, "--out", "new", *change).code == 0
    cards = [json.loads(Path(name, "card.json").read_text()) for name in ("made", "new")]
    assert cards[0]["fingerprint"] == cards[1]["fingerprint"]


def test_a_damaged_checkpoint_is_refused(igd: Igd, refused: Refused) -> None:
    Path("made").mkdir()
    Path("made/checkpoint.pt").write_bytes(b"PK, but cut")
    assert "is not a whole checkpoint" in refused(*TRAIN, "--out", "made")


def test_a_diverging_training_names_the_step_and_leaves_no_folder(refused: Refused) -> None:
    message = refused(*TRAIN, "--out", "deep/new", "--peak", "1e30")
    assert "Training diverged in epoch 1, step 2 of 2" in message


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("train", "fast", *SMALL), "No recipe 'fast'; expected one of: fat, gat, nuat, pgd"),
        (("train", "fat", *SMALL[:4], "--arch", "resnet19"), "Unknown architecture 'resnet19'"),
        ((*TRAIN, "--epochs", "0"), "'--epochs'"),
        ((*TRAIN, "--pgd-steps", "0"), "'--pgd-steps'"),
        ((*TRAIN, "--eps", "8"), "eps = 8 is outside (0, 1]"),
        ((*TRAIN, "--eps", "abc"), "'abc' is not a number"),
        ((*TRAIN, "--peak", "0"), "peak = 0; expected a positive learning rate"),
        ((*TRAIN, "--smoothing", "1"), "smoothing = 1 is outside [0, 1)"),
        ((*TRAIN, "--ema", "1"), "ema = 1 is outside (0, 1)"),
        ((*TRAIN, "--attack-steps", "2"), "fat attacks in one step"),
        ((*TRAIN, "--schedule", "cosine"), "'cosine' is not one of 'cyclic', 'piecewise'"),
        ((*TRAIN, "--patience", "2"), "patience needs held-out images"),
        ((*TRAIN, "--validation", "64"), "leaves none of 64 images to train on"),
        ((*TRAIN, "--tensorboard", "data.npz"), "data.npz is a file; --tensorboard names a folder"),
        ((*TRAIN, "--data", "absent.npz"), "absent.npz is missing"),
        ((*TRAIN, "--test", "data.npz"), "The test data has classes cat, dog, bird but"),
        ((*TRAIN, "--n-test", "9"), "holds 8 images, fewer than the 9"),
    ],
)
def test_a_mistake_shows_before_the_training(
    arguments: tuple[str, ...], says: str, refused: Refused
) -> None:
    assert says in refused(*arguments, "--out", "new")


@pytest.mark.parametrize(
    ("out", "says"), [("data.npz", "data.npz is a file"), ("data.npz/new", "is not a folder")]
)
def test_an_output_that_can_be_no_folder_is_refused(out: str, says: str, refused: Refused) -> None:
    assert says in refused(*TRAIN, "--out", out)
