"""The path layers -> rank -> tune -> defend -> predict, and what each command says of itself."""

import csv
import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from cli.shell import Ended, Igd, Refused
from igdefense import Ranking, load_defense, load_model
from igdefense.cli import ranking as ranking_command
from igdefense.data.cifar10 import CLASSES
from igdefense.rankings.controls import random_for, shuffled

CNN = "shell_nets:cnn"
COMMANDS = [
    *("layers", "rank", "compare", "explain", "tune", "defend", "predict"),
    *("search", "cost", "models", "train", "data", "demo"),
]
SPOKEN = [*[(name,) for name in COMMANDS], ("data", "cifar10"), ("data", "show")]
SPOKEN += [("models", "card"), ("models", "measure")]


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_commands_are_listed_in_the_order_of_the_data_path(igd: Igd) -> None:
    lines = igd("--help").out.split("Commands")[1].splitlines()
    words = [line.strip("│ ").split(" ")[0] for line in lines]
    assert [word for word in words if word in COMMANDS] == COMMANDS


@pytest.mark.parametrize("names", SPOKEN, ids=" ".join)
def test_every_help_shows_an_example_in_plain_text(names: tuple[str, ...], igd: Igd) -> None:
    ended = igd(*names, "--help")
    assert ended.code == 0
    assert f"Example: igd {names[0]}" in ended.out
    assert "`" not in ended.out


@pytest.mark.parametrize(("name", "default"), [("predict", "4/255"), ("train", "8/255")])
def test_help_shows_defaults_as_a_user_writes_them(name: str, default: str, igd: Igd) -> None:
    assert f"[default: {default}]" in igd(name, "--help").out


def test_no_command_shows_the_help(igd: Igd) -> None:
    ended = igd()
    assert (ended.code, "Usage: igd" in ended.out + ended.err) == (2, True)


def test_an_interruption_is_one_line_and_130(igd: Igd, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ranking_command, "load_model", interrupt)
    assert igd("layers", CNN) == Ended(130, "", "igd: interrupted.\n")


def test_layers_lists_names_that_rank_takes(igd: Igd) -> None:
    lines = igd("layers", CNN, "--data", "data.npz").out.splitlines()
    assert lines[4].split() == ["last", "10", "10", "x", "3", "x", "3", "(Conv2d)"]


def test_a_random_ranking_never_leaves_a_neuron_out(
    igd: Igd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking_command, "leave_one_out", None)
    end = ("--layer", "last", "--data", "data.npz", "--out", "random.st", "--seed", 3)
    assert igd("rank", CNN, "--method", "random", *end).code == 0
    assert Ranking.load("random.st").provenance["settings"] == "seed=3"


def test_a_random_ranking_equals_a_shuffled_one_of_its_seed(
    cnn: nn.Module, images: torch.Tensor
) -> None:
    other = Ranking("last", torch.zeros(3, 10))
    assert torch.equal(random_for(cnn, images, "last", 5).scores, shuffled(other, 5).scores)


def test_tune_marks_the_smallest_keep_within_the_tolerance(igd: Igd, ranking: str) -> None:
    end = ("--ranking", ranking, "--data", "data.npz", "--sigma", 0, "--tolerance", "0.99")
    marked = [line for line in igd("tune", CNN, *end).out.splitlines() if "<-" in line]
    assert [line.split()[0] for line in marked] == ["1"]


def test_predict_gives_the_model_s_own_answers(igd: Igd) -> None:
    rows = table(igd("predict", CNN, "--data", "data.npz").out)
    with np.load("data.npz") as file, torch.no_grad():
        chances = load_model(CNN)(torch.from_numpy(file["images"])).softmax(1)
    names = ["cat", "dog", "bird"]
    assert [row["prediction"] for row in rows] == [names[i] for i in chances.argmax(1)]
    assert [row["probability"] for row in rows] == [f"{p:.4f}" for p in chances.amax(1)]
    assert [row["label"] for row in rows] == names * 3


def test_the_accuracy_is_the_share_of_correct_rows(igd: Igd) -> None:
    ended = igd("predict", CNN, "--data", "data.npz")
    right = sum(row["correct"] == "yes" for row in table(ended.out))
    assert f"accuracy {right / 9:.2%} (n = 9)" in ended.err


def test_a_defended_prediction_is_independent_of_the_batch_size(igd: Igd, ranking: str) -> None:
    noisy = ("--sigma", 1, "--temperature", 1)  # so that every draw shows in the probability
    end = ("--ranking", ranking, "--keep", 3, *noisy, "--data", "data.npz")
    answers = {igd("predict", CNN, *end, "--batch-size", size).out for size in (1, 4, 100)}
    assert len(answers) == 1
    assert "first guess" in answers.pop()


def test_a_saved_defense_predicts_like_the_one_it_was_made_from(igd: Igd, ranking: str) -> None:
    noisy = ("--sigma", 1, "--temperature", 1, "--seed", 7)
    settings = ("--ranking", ranking, "--keep", 3, *noisy)
    assert igd("defend", CNN, *settings, "--out", "defended").code == 0
    direct = igd("predict", CNN, *settings, "--data", "data.npz").out
    assert igd("predict", "defended", "--data", "data.npz").out == direct
    assert load_defense("defended").settings["seed"] == 7


def test_a_saved_defense_takes_no_settings(igd: Igd, ranking: str, refused: Refused) -> None:
    igd("defend", CNN, "--ranking", ranking, "--keep", 3, "--out", "defended")
    message = refused("predict", "defended", "--data", "data.npz", "--keep", 5)
    assert "--keep has no effect here: defended is a saved defense" in message


def test_image_files_and_a_folder_of_them_get_the_same_answers(igd: Igd, folder: Path) -> None:
    (folder / "photos").mkdir()
    rng = np.random.default_rng(1)
    files = [f"photos/{i}.png" for i in range(3)]
    for name in files:
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(name)
    named, found = igd("predict", CNN, *files), igd("predict", CNN, "photos")
    assert [row["image"] for row in table(named.out)] == files
    assert named.out == found.out
    assert {row["prediction"] for row in table(named.out)} <= {"0", "1", "2"}


def test_a_folder_of_classes_gives_labels(igd: Igd, folder: Path) -> None:
    for name in ("a", "b", "c"):
        (folder / "photos" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8), "red").save(folder / "photos" / name / "1.png")
    rows = table(igd("predict", CNN, "--data", "folder:photos").out)
    assert [row["label"] for row in rows] == ["a", "b", "c"]


def test_a_folder_without_images_says_how_to_name_one_of_classes(
    refused: Refused, folder: Path
) -> None:
    (folder / "photos").mkdir()
    assert "pass --data folder:photos" in refused("predict", CNN, "photos")


def test_the_embedded_model_names_its_classes_for_image_files(igd: Igd) -> None:
    Image.new("RGB", (32, 32), "blue").save("sky.png")
    (row,) = table(igd("predict", "embedded", "sky.png").out)
    assert row["prediction"] in CLASSES


def test_a_csv_file_holds_what_the_screen_would_show(igd: Igd) -> None:
    shown = igd("predict", CNN, "--data", "data.npz").out
    ended = igd("predict", CNN, "--data", "data.npz", "--out", "new/predictions.csv")
    assert ended.out == "9 predictions -> new/predictions.csv\n"
    assert Path("new/predictions.csv").read_text() == shown


def test_only_a_user_s_checkpoint_gets_a_line_about_its_normalisation(
    igd: Igd, caplog: pytest.LogCaptureFixture
) -> None:
    model = load_model("embedded")
    torch.save(model.state_dict(), "mine.pt")
    with caplog.at_level(logging.INFO):
        load_model("embedded")
        assert "normalisation" not in caplog.text
        load_model("mine.pt", "resnet18-w16")
        assert "mine.pt: normalisation stored in the file" in caplog.text


def test_data_show_counts_the_images_of_each_class(igd: Igd) -> None:
    lines = igd("data", "show", "data.npz").out.splitlines()
    assert lines[0].startswith("Data(9 images of 3 x 8 x 8, 3 classes), fingerprint ")
    assert [line.split() for line in lines[1:]] == [["3", "cat"], ["3", "dog"], ["3", "bird"]]


def test_a_process_of_its_own_ends_without_a_traceback(folder: Path) -> None:
    places = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    program = "from igdefense.cli import main; main()"
    arguments = ["rank", CNN, "--layer", "lost", "--data", "data.npz", "--out", "new.st"]
    ended = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("igd: CNN has no layer 'lost'. Did you mean last?")
    assert ended.stderr.count("\n") == 1
    assert not (folder / "new.st").exists()


def test_layers_marks_what_rank_takes_by_default(igd: Igd) -> None:
    listed = igd("layers", "shell_nets:cnn", "--data", "data.npz").out.splitlines()
    assert [line.split()[0] for line in listed if "<- recommended" in line] == ["pool"]
    ended = igd("rank", "shell_nets:cnn", "--data", "data.npz", "--out", "usual.safetensors")
    assert ended.out.startswith("LO-IR of pool: 3 classes x 10 neurons")
