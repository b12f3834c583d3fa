"""`igd rank --method net-dissect | inverted`, `igd compare` and `igd explain`."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cli.shell import Igd, Refused
from igdefense import Ranking, load_data, load_model, net_dissect

CNN = "shell_nets:cnn"
RANK = ("rank", CNN, "--data", "data.npz", "--layer", "last")
EXPLAIN = ("--model", CNN, "--data", "data.npz")


def test_net_dissect_is_the_library_s_with_and_without_masks(igd: Igd) -> None:
    masks = np.arange(9 * 64).reshape(9, 8, 8) % 4 - 1
    np.save("masks.npy", masks)
    method = ("--method", "net-dissect", "--quantile", "1/20")
    assert igd(*RANK, *method, "--out", "labels.st").code == 0
    assert igd(*RANK, *method, "--masks", "masks.npy", "--n", 6, "--out", "pixels.st").code == 0
    model, data = load_model(CNN), load_data("data.npz")
    labels = net_dissect(model, data, "last", quantile=0.05)
    pixels = net_dissect(model, data[:6], "last", quantile=0.05, masks=torch.from_numpy(masks[:6]))
    assert torch.equal(Ranking.load("labels.st").scores, labels.scores)
    assert torch.equal(Ranking.load("pixels.st").scores, pixels.scores)


def test_inverted_turns_lo_ir_or_a_given_ranking_upside_down(igd: Igd, ranking: str) -> None:
    assert igd(*RANK, "--method", "inverted", "--out", "a.st").code == 0
    assert igd("rank", CNN, "--method", "inverted", "--of", ranking, "--out", "b.st").code == 0
    for name in ("a.st", "b.st"):
        assert torch.equal(Ranking.load(name).scores, -Ranking.load(ranking).scores)
        assert Ranking.load(name).provenance["method"] == "inverted LO-IR"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--of", "r.st"), "--of has no effect here: only --method inverted"),
        (("--quantile", "0.1"), "--quantile has no effect here"),
        (("--method", "random", "--masks", "m.npy"), "--masks has no effect here"),
        (("--method", "net-dissect", "--change", "absolute"), "--change has no effect here"),
        (("--method", "net-dissect", "--seed", "1"), "--seed has no effect here: net-dissect"),
        (("--method", "net-dissect", "--quantile", "2"), "quantile = 2; expected a share"),
        (("--method", "net-dissect", "--masks", "m.npy"), "m.npy is missing"),
        (("--method", "net-dissect", "--masks", "data.npz"), "data.npz does not hold whole"),
        (("--method", "inverted", "--of", "r.st"), "--layer has no effect here: --of names"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_options_of_another_method_are_refused(
    options: tuple[str, ...], says: str, refused: Refused
) -> None:
    assert says in refused(*RANK, "--out", "new.st", *options)


def test_compare_tells_overlap_and_correlation(igd: Igd, ranking: str) -> None:
    igd("rank", CNN, "--method", "inverted", "--of", ranking, "--out", "inverse.st")
    outputs = ("--out", "picture.png", "--json", "numbers.json")
    ended = igd("compare", ranking, "inverse.st", "--k", 1, "--data", "data.npz", *outputs)
    assert ended.code == 0, ended.err
    rows = [line.split() for line in ended.out.splitlines()]
    assert ["LO-IR", "/", "inverted", "LO-IR", "0.000", "-1.000"] in rows
    assert ["chance", "(k", "/", "neurons)", "0.100", "0.000"] in rows
    assert ["bird", "0.000", "-1.000"] in rows
    assert json.loads(Path("numbers.json").read_text())["ks"] == [1]
    with Image.open("picture.png") as picture:
        assert picture.format == "PNG"


def test_rankings_of_one_method_are_named_by_their_files(igd: Igd) -> None:
    for seed in (1, 2):
        igd(*RANK, "--method", "random", "--seed", seed, "--out", f"draw{seed}.st")
    assert "draw1 / draw2" in igd("compare", "draw1.st", "draw2.st").out


def test_compare_refuses_what_cannot_be_compared(igd: Igd, ranking: str, refused: Refused) -> None:
    igd("rank", CNN, "--data", "data.npz", "--layer", "conv1", "--out", "c.st")
    assert "c ranks conv1 (3 classes x 6 neurons)" in refused("compare", ranking, "c.st")
    assert "at least two rankings" in refused("compare", ranking)
    assert "named twice" in refused("compare", ranking, ranking)
    assert "There is no ranking file d.st" in refused("compare", ranking, "d.st")
    Path("old.png").touch()
    assert "old.png exists" in refused("compare", ranking, "c.st", "--out", "old.png")
    assert "does not end in .png" in refused("compare", ranking, "c.st", "--out", "new.pdf")


def test_explain_shows_the_class_s_top_neurons(igd: Igd, ranking: str) -> None:
    outputs = ("--out", "picture.png", "--json", "numbers.json")
    ended = igd("explain", ranking, *EXPLAIN, "--class", "dog", "--top", 2, "--images", 3, *outputs)
    assert ended.code == 0, ended.err
    best = Ranking.load(ranking).order[1, :2].tolist()
    assert [int(line.split()[0]) for line in ended.out.splitlines()[2:]] == best
    assert json.loads(Path("numbers.json").read_text())["class"] == "dog"
    with Image.open("picture.png") as picture:
        assert picture.format == "PNG"


def test_explain_refuses_bad_input(ranking: str, refused: Refused) -> None:
    cat = ("--class", "cat", "--images", 2)
    assert "no class 'cow'" in refused("explain", ranking, *EXPLAIN, "--class", "cow")
    assert "images = 10 is outside" in refused("explain", ranking, *EXPLAIN, *cat[:3], 10)
    assert "top = 11 is outside" in refused("explain", ranking, *EXPLAIN, *cat, "--top", 11)
    other = ("--model", "shell_nets:other", *EXPLAIN[2:])
    assert "made for a model with fingerprint" in refused("explain", ranking, *other, *cat)
