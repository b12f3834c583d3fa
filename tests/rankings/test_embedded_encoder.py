"""The encoder that ships: its size, its card, what it knows and what it refuses."""

from importlib.resources import files
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import igdefense as igd
from igdefense.errors import DataError, ModelError
from igdefense.rankings.encoders.dual import DualEncoder, pieces_of
from igdefense.rankings.encoders.embedded import EmbeddedEncoder, encoder_card, save_encoder


@pytest.fixture(scope="module")
def encoder() -> EmbeddedEncoder:
    return EmbeddedEncoder.find()


def test_it_is_smaller_than_four_megabytes() -> None:
    weights = files("igdefense.rankings.encoders") / "weights" / "encoder.safetensors"
    assert len(weights.read_bytes()) < 4_000_000


def test_the_card_is_of_these_weights_and_says_what_they_are(encoder: EmbeddedEncoder) -> None:
    card = encoder_card()
    assert card["fingerprint"] == encoder.identity
    assert "CLIP ViT-B/16" in card["encoder"]
    assert card["command"].startswith("igd train-encoder")
    assert card["test"]["images"] == 10_000
    assert card["test"]["zero-shot"] > 0.8


@pytest.mark.parametrize("template", ["{}", "a photo of a {}", "an old picture with a {} in it"])
def test_names_find_their_images_in_any_template(encoder: EmbeddedEncoder, template: str) -> None:
    test = igd.load_data("embedded:test", n=500)
    texts = encoder.texts([template.format(name) for name in test.class_names])
    right = (encoder.images(test.images[:]) @ texts.T).argmax(1) == test.labels
    assert right.float().mean() > encoder_card()["test"]["zero-shot"] - 0.06


def test_embeddings_are_unit_vectors_of_any_text(
    encoder: EmbeddedEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    texts = encoder.texts(["cat", "", "日本", "a " * 500, "aquarium_fish"])
    assert_close(texts.norm(dim=1), torch.ones(5))
    assert "trained on airplane, automobile" in caplog.text
    assert "'aquarium_fish'" in caplog.text or "..." in caplog.text


def test_names_it_knows_are_no_cause_for_a_warning(
    encoder: EmbeddedEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    encoder.texts([f"a photo of a {name}" for name in encoder.names])
    assert caplog.text == ""


def test_case_and_punctuation_do_not_matter_and_words_do() -> None:
    assert pieces_of("A Cat!") == pieces_of("a cat")
    assert set(pieces_of("cat")) < set(pieces_of("a cat"))
    assert pieces_of("cat") != pieces_of("act")


def test_images_of_another_size_are_refused(encoder: EmbeddedEncoder) -> None:
    with pytest.raises(DataError, match="3 x 32 x 32, not of 1 x 28 x 28; choose CLIP"):
        encoder.images(torch.zeros(2, 1, 28, 28))


def test_a_saved_encoder_comes_back_in_half_precision(tmp_path: Path) -> None:
    model = DualEncoder(8, (4, 6)).eval()
    save_encoder(model, ["cat", "dog"], tmp_path / "encoder.safetensors")
    again = EmbeddedEncoder.find(str(tmp_path))
    assert again.names == ("cat", "dog")
    images = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert_close(again.images(images), model(images), rtol=0, atol=5e-3)
        assert_close(again.texts(["cat"]), model.texts(["cat"]), rtol=0, atol=5e-3)


def test_a_damaged_or_foreign_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "encoder.safetensors"
    save_encoder(DualEncoder(8, (4, 6)), ["cat"], path)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ModelError, match="not a whole encoder file"):
        EmbeddedEncoder.find(str(tmp_path))
    igd.Ranking("layer", torch.zeros(2, 2)).save(path)
    with pytest.raises(ModelError, match="not an encoder made by `igd train-encoder`"):
        EmbeddedEncoder.find(str(tmp_path))
