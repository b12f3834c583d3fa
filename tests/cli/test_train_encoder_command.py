"""`igd train-encoder` on images of three colours."""

import json
from pathlib import Path

import numpy as np
import pytest

from cli.shell import Igd, Refused
from igdefense.rankings.encoders.embedded import EmbeddedEncoder

NAMES = ("cat", "dog", "bird")


@pytest.fixture
def shades(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name, count in (("train.npz", 45), ("test.npz", 15)):
        labels = np.arange(count) % 3
        images = rng.integers(0, 60, (count, 3, 32, 32)) + 190 * np.eye(3)[labels][:, :, None, None]
        images = images.clip(0, 255).astype(np.uint8)
        np.savez(folder / name, images=images, labels=labels, class_names=np.array(NAMES))


TRAIN = ("train-encoder", "--data", "train.npz", "--test", "test.npz", "--batch", 15)


@pytest.mark.usefixtures("shades")
def test_the_command_trains_an_encoder_that_names_colours(igd: Igd) -> None:
    ended = igd(*TRAIN, "--epochs", 4, "--peak", "0.05", "--seed", 3, "--out", "made")
    assert ended.code == 0, ended.err
    card = json.loads(Path("made/card.json").read_text())
    assert "CLIP" in card["encoder"]
    assert (card["seed"], card["epochs"], card["training images"]) == (3, 4, 45)
    assert card["test"]["zero-shot"] > 0.6
    encoder = EmbeddedEncoder.find("made")
    assert (encoder.names, encoder.identity) == (NAMES, card["fingerprint"])
    again = igd(*TRAIN, "--epochs", 4, "--peak", "0.05", "--seed", 3, "--out", "again")
    assert again.code == 0
    assert json.loads(Path("again/card.json").read_text())["fingerprint"] == card["fingerprint"]


@pytest.mark.usefixtures("shades")
def test_a_mistake_shows_before_the_training(igd: Igd, refused: Refused) -> None:
    train = (*TRAIN, "--epochs", 1, "--out", "new")
    assert "3 x 32 x 32, not of 3 x 8 x 8" in refused(*train, "--test", "data.npz")
    assert "peak = 0; expected a positive" in refused(*train, "--peak", 0)
    assert "different classes" in refused(*train, "--test", "embedded:test")
    Path("new").touch()
    assert "new is a file" in refused(*train)
