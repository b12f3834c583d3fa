"""Small real checkpoints of both kinds of CLIP, as their own packages save them."""

import json
import string
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from igdefense.models.adapters.foreign import import_foreign

SIZE = 48
MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


def package(name: str) -> Any:
    """The module, or a skipped test; a torchvision built for another torch is made to import."""
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed: igdefense[clip]")
    return import_foreign(name)


def open_clip_config() -> dict[str, Any]:
    vision = {"image_size": SIZE, "layers": 1, "width": 32, "patch_size": 16, "head_width": 16}
    text = {"context_length": 77, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
    return {"embed_dim": 24, "vision_cfg": vision, "text_cfg": text}


def open_clip_folder(folder: Path) -> Path:
    """What `open_clip:FOLDER` loads."""
    open_clip = package("open_clip")
    settings = {"model_cfg": open_clip_config(), "preprocess_cfg": {"mean": MEAN, "std": STD}}
    folder.mkdir(parents=True)
    (folder / "open_clip_config.json").write_text(json.dumps(settings))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = open_clip.model.CLIP(**open_clip_config())
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(tensors, folder / "open_clip_model.safetensors")
    return folder


def transformers_folder(folder: Path) -> Path:
    """What `transformers:FOLDER` loads."""
    transformers = package("transformers")
    folder.mkdir(parents=True)
    letters = string.ascii_lowercase
    pieces = [*letters, *(f"{letter}</w>" for letter in letters)]
    vocabulary = {piece: i for i, piece in enumerate([*pieces, "<|startoftext|>", "<|endoftext|>"])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    end = vocabulary["<|endoftext|>"]
    small = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    small["num_attention_heads"] = 2
    text = {**small, "vocab_size": len(vocabulary), "max_position_embeddings": 77}
    text |= {"bos_token_id": end - 1, "eos_token_id": end, "pad_token_id": end}
    vision = {**small, "image_size": SIZE, "patch_size": 16}
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = transformers.CLIPTokenizer(
            str(folder / "vocab.json"), str(folder / "merges.txt"), model_max_length=77
        )
        with torch.random.fork_rng():
            torch.manual_seed(0)
            transformers.CLIPModel(config).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        transformers.CLIPImageProcessor(
            size={"shortest_edge": SIZE},
            crop_size={"height": SIZE, "width": SIZE},
            image_mean=MEAN,
            image_std=STD,
        ).save_pretrained(folder)
    return folder


FOLDERS = {"open_clip": open_clip_folder, "transformers": transformers_folder}
