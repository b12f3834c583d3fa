"""`igd rank --method cd-ir`, several layers, and what CD-IR refuses."""

from pathlib import Path

import pytest
import torch

from cli.shell import Igd, Refused
from igdefense import Ranking, clip_dissect, load_data, load_model

CNN = "shell_nets:cnn"
CD_IR = ("rank", "embedded", "--method", "cd-ir", "--n", 120, "--layer", "layer4")
NAMES = "airplane,automobile,bird,cat,deer,dog,frog,horse,ship,truck"


def test_cd_ir_is_the_library_s_with_its_options(igd: Igd) -> None:
    ended = igd(*CD_IR, "--out", "cd.st", "--cache", "kept")
    assert ended.code == 0, ended.err
    assert "CD-IR of layer4: 10 classes x 128 neurons -> cd.st" in ended.out
    assert {path.name.split("-")[0] for path in Path("kept").iterdir()} == {
        *("activations", "cosines", "embeddings")
    }
    model, data = load_model("embedded"), load_data("embedded:probe", n=120)
    assert torch.equal(Ranking.load("cd.st").scores, clip_dissect(model, data, "layer4").scores)
    Path("names.txt").write_text(NAMES.replace("airplane", "ship").replace(",ship", ",airplane"))
    swapped = Path("names.txt").read_text().replace(",", "\n") + "\n"
    Path("names.txt").write_text(swapped)
    options = ("--similarity", "wpmi", "--top-k", 9, "--template", "a {}", "--template", "the {}")
    ended = igd(*CD_IR, *options, "--class-names", "names.txt", "--out", "other.st")
    assert ended.code == 0, ended.err
    expected = clip_dissect(
        model,
        data,
        "layer4",
        similarity="wpmi",
        top_k=9,
        class_names=swapped.split(),
        templates=("a {}", "the {}"),
    )
    assert torch.equal(Ranking.load("other.st").scores, expected.scores)
    assert "top_k=9, templates=a {}|the {}" in expected.provenance["settings"]


def test_a_ranking_by_names_defends_and_explains_like_any_other(igd: Igd) -> None:
    assert igd(*CD_IR, "--out", "cd.st").code == 0
    explain = ("explain", "cd.st", "--model", "embedded", "--class", "cat", "--n", 20)
    assert "cat: top neurons of layer4 by CD-IR" in igd(*explain, "--images", 3).out
    assert igd("defend", "embedded", "--ranking", "cd.st", "--keep", 16, "--out", "d").code == 0


@pytest.mark.parametrize("method", ["lo-ir", "random", "net-dissect", "inverted", "cd-ir"])
def test_several_layers_become_files_in_a_folder(method: str, igd: Igd) -> None:
    model = "embedded" if method == "cd-ir" else CNN
    layers = ("layer3", "layer4") if method == "cd-ir" else ("conv2", "last")
    data = ("--n", 20) if method == "cd-ir" else ("--data", "data.npz")
    asked = [part for layer in (*layers, layers[0]) for part in ("--layer", layer)]
    command = ("rank", model, *data, "--method", method)
    ended = igd(*command, *asked, "--out", "all")
    assert ended.code == 0, ended.err
    assert sorted(path.name for path in Path("all").iterdir()) == [
        f"{layer}.safetensors" for layer in layers
    ]
    assert igd(*command, "--layer", layers[1], "--out", "one.st").code == 0
    several = Ranking.load(f"all/{layers[1]}.safetensors")
    assert torch.equal(several.scores, Ranking.load("one.st").scores)
    assert "exists already" in igd(*command, *asked, "--out", "all").err
    assert igd(*command, *asked, "--out", "all", "--force").code == 0


def test_a_small_probe_set_and_a_damaged_cache_are_told_of(igd: Igd) -> None:
    first = igd(*CD_IR, "--n", 40, "--cache", "kept", "--out", "a.st")
    assert "has 40 images, fewer than top_k = 100: all 40 were used" in first.err
    for path in Path("kept").iterdir():
        path.write_bytes(b"damaged")
    again = igd(*CD_IR, "--n", 40, "--cache", "kept", "--out", "b.st")
    assert again.code == 0
    assert again.err.count("is damaged") == 3
    assert torch.equal(Ranking.load("a.st").scores, Ranking.load("b.st").scores)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--class-names", "cat,dog"), "10 logits but there are 2 class names"),
        (("--class-names", NAMES.replace("deer", "cat")), "'cat' is there twice"),
        (("--class-names", NAMES.replace("deer", "")), "The name of class 4 is empty"),
        (("--class-names", "lost.txt"), "lost.txt is missing"),
        (("--class-names", "data.npz"), "data.npz is not a text file"),
        (("--encoder", "clip"), "Unknown encoder 'clip'; expected embedded,"),
        (("--encoder", "embedded:gone"), "gone/encoder.safetensors is missing"),
        (("--template", "photo"), "'photo' needs one {}"),
        (("--top-k", "0"), "top_k = 0"),
        (("--similarity", "l1"), "'l1' is not one of"),
        (("--seed", "1"), "--seed has no effect here: cd-ir draws no random numbers"),
        (("--change", "absolute"), "--change has no effect here"),
        (("--layer", "layer9"), "has no layer 'layer9'"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_sentence(options: tuple[str, ...], says: str, refused: Refused) -> None:
    assert says in refused(*CD_IR, "--out", "new.st", *options)


def test_an_encoder_of_another_image_size_is_refused(refused: Refused) -> None:
    command = ("rank", CNN, "--method", "cd-ir", "--data", "data.npz", "--layer", "last")
    message = refused(*command, "--out", "new.st")
    assert "takes images of 3 x 32 x 32, not of 3 x 8 x 8" in message


@pytest.mark.parametrize("option", ["--encoder", "--class-names", "--template", "--cache"])
def test_options_of_cd_ir_are_refused_elsewhere(option: str, refused: Refused) -> None:
    command = ("rank", CNN, "--data", "data.npz", "--layer", "last", "--out", "new.st")
    assert f"{option} has no effect here" in refused(*command, option, "embedded")
