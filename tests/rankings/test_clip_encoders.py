"""open_clip and transformers: small real checkpoints, saved and loaded as users load theirs."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch.testing import assert_close

import igdefense as igd
from igdefense.data.data import Data
from igdefense.errors import ModelError
from igdefense.rankings.cache import Cache
from igdefense.rankings.encoders.encoder import Encoder
from nets import make_net
from rankings.checkpoints import FOLDERS, MEAN, SIZE, STD, open_clip_config, package

pytestmark = pytest.mark.filterwarnings("ignore")  # those of other packages
KINDS = list(FOLDERS)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(kind: str, tmp_path: Path) -> Path:
    return FOLDERS[kind](tmp_path / "saved here")


def of_one_colour(shape: tuple[int, int], *colours: tuple[int, int, int]) -> Tensor:
    return (torch.tensor(colours) / 255)[:, :, None, None].expand(-1, -1, *shape)


@torch.no_grad()
def by_hand(kind: str, encoder: Any, pixels: Tensor) -> Tensor:
    """The model itself on normalised pixels of its own size."""
    if kind == "open_clip":
        return normalize(encoder.model.encode_image(pixels), dim=1)
    pooled = encoder.model.vision_model(pixel_values=pixels).pooler_output
    return normalize(encoder.model.visual_projection(pooled), dim=1)


@pytest.mark.parametrize("shape", [(32, 32), (40, 64)])
def test_images_are_resized_and_normalised_as_the_checkpoint_says(
    kind: str, folder: Path, shape: tuple[int, int]
) -> None:
    encoder = igd.load_encoder(f"{kind}:{folder}")
    images = of_one_colour(shape, (10, 200, 77), (255, 0, 128))
    expected = (of_one_colour((SIZE, SIZE), (10, 200, 77), (255, 0, 128)).movedim(1, 3)) - (
        torch.tensor(MEAN)
    )
    pixels = (expected / torch.tensor(STD)).movedim(3, 1)
    assert_close(encoder.images(images), by_hand(kind, encoder, pixels), rtol=0, atol=1e-5)


def test_texts_are_unit_vectors_that_tell_texts_apart(kind: str, folder: Path) -> None:
    encoder = igd.load_encoder(f"{kind}:{folder}")
    texts = encoder.texts(["cat", "dog", "a photo of a dog", "cat"])
    assert_close(texts.norm(dim=1), torch.ones(4))
    assert_close(texts[0], texts[3])
    assert (texts[:3] @ texts[:3].T).fill_diagonal_(0).max() < 0.9999
    assert_close(encoder.texts(["dog"]), texts[1:2], rtol=0, atol=1e-5)  # padding changes nothing


def test_the_identity_is_that_of_the_weights(kind: str, folder: Path, tmp_path: Path) -> None:
    encoder = igd.load_encoder(f"{kind}:{folder}")
    again = igd.load_encoder(f"{kind}:{FOLDERS[kind](tmp_path / 'copy')}")
    assert isinstance(encoder, Encoder)
    assert encoder.identity == again.identity
    with torch.no_grad():
        next(again.model.parameters()).add_(1)  # type: ignore[attr-defined]
    changed = type(again)(*_parts(kind, again))
    assert changed.identity != encoder.identity


def _parts(kind: str, encoder: Any) -> tuple[Any, ...]:
    second = encoder.preprocess if kind == "open_clip" else encoder.processor
    return encoder.model, second, encoder.tokenizer


def test_cd_ir_ranks_by_a_checkpoint(kind: str, folder: Path, data: Data, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    spec = f"{kind}:{folder}"
    ranking = igd.clip_dissect(make_net("cnn"), data, "last", encoder=spec, cache=cache)
    assert ranking.scores.shape == (3, 10)
    assert ranking.provenance["encoder"].startswith(kind)


def test_a_damaged_checkpoint_is_refused(kind: str, folder: Path) -> None:
    (weights,) = folder.glob("*model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ModelError, match=f"saved here cannot be loaded by {kind}"):
        igd.load_encoder(f"{kind}:{folder}")


def test_a_folder_without_weights_is_refused(kind: str, folder: Path) -> None:
    (weights,) = folder.glob("*model.safetensors")
    weights.unlink()
    with pytest.raises(ModelError, match=f"saved here cannot be loaded by {kind}"):
        igd.load_encoder(f"{kind}:{folder}")


def test_weights_that_were_never_downloaded_name_the_download() -> None:
    package("open_clip")
    with pytest.raises(
        ModelError, match=r"hf download timm/vit_base_patch16_clip_224\.openai open_clip_model"
    ):
        igd.load_encoder("open_clip:ViT-B-16/openai")
    package("transformers")
    with pytest.raises(ModelError, match="hf download openai/clip-vit-base-patch16"):
        igd.load_encoder("transformers:openai/clip-vit-base-patch16")


def test_a_name_is_found_in_the_hub_s_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package("transformers")
    cache = tmp_path / "hub"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    made = FOLDERS["transformers"](cache / "models--someone--small" / "snapshots" / "abc")
    (made.parents[1] / "refs").mkdir()
    (made.parents[1] / "refs" / "main").write_text("abc")
    found = igd.load_encoder("transformers:someone/small")
    assert found.identity == igd.load_encoder(f"transformers:{made}").identity


def test_a_tag_s_weights_are_found_in_the_hub_s_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_clip = package("open_clip")
    cache = tmp_path / "hub"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    made = FOLDERS["open_clip"](cache / "models--someone--small" / "snapshots" / "abc")
    (made.parents[1] / "refs").mkdir()
    (made.parents[1] / "refs" / "main").write_text("abc")
    monkeypatch.setattr(open_clip, "list_models", lambda: ["small"])
    factory = importlib.import_module("open_clip.factory")
    monkeypatch.setitem(factory._MODEL_CONFIGS, "small", open_clip_config())
    tag = {"hf_hub": "someone/small/", "mean": MEAN, "std": STD, "quick_gelu": True}
    monkeypatch.setattr(open_clip, "get_pretrained_cfg", lambda *_: tag)
    encoder: Any = igd.load_encoder("open_clip:small/mine")
    assert f"mean={MEAN}" in str(encoder.preprocess).replace("[", "(").replace("]", ")")
    assert "QuickGELU" in str(encoder.model)
    plain: Any = igd.load_encoder(f"open_clip:{made}")
    texts = plain.tokenizer(["cat"]), encoder.tokenizer(["cat"])
    assert torch.equal(*texts)
    weights = plain.model.state_dict(), encoder.model.state_dict()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("open_clip:ViT-B-16/nowhere", "no weights 'nowhere' for ViT-B-16.*its tags: openai"),
        ("open_clip:ViT-B-17/openai", "no architecture 'ViT-B-17'"),
    ],
)
def test_an_unknown_open_clip_is_refused(spec: str, says: str) -> None:
    package("open_clip")
    with pytest.raises(ModelError, match=says):
        igd.load_encoder(spec)


def test_a_model_without_texts_is_refused(tmp_path: Path) -> None:
    folder = FOLDERS["transformers"](tmp_path / "clip")
    config = json.loads((folder / "config.json").read_text())["vision_config"]
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "clip_vision_model"}))
    with pytest.raises(ModelError, match="CLIPVisionModel, which has no images and texts in one"):
        igd.load_encoder(f"transformers:{folder}")


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [("open_clip:ViT-B-16/openai", "open_clip_torch"), ("transformers:x/y", "transformers")],
)
def test_a_missing_or_broken_package_is_one_sentence(
    spec: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, spec.split(":", maxsplit=1)[0], None)
    with pytest.raises(
        ModelError, match=rf"needs the package {wanted}: pip install 'igdefense\[clip\]'"
    ):
        igd.load_encoder(spec)

    def broken(name: str) -> None:
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(ModelError, match="torchvision does not fit the installed torch"):
        igd.load_encoder(spec)
