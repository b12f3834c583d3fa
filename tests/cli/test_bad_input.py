"""Bad input gets one clear sentence, exit code 2, and nothing half-written."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from cli.shell import Igd, Refused

CNN = "shell_nets:cnn"
RANK = ("--layer", "last", "--data", "data.npz", "--out", "new.st")


def test_an_unknown_layer_is_refused_with_the_nearest_names(refused: Refused) -> None:
    message = refused("rank", CNN, "--data", "data.npz", "--layer", "conv3", "--out", "new.st")
    assert "CNN has no layer 'conv3'. Did you mean conv2, conv1?" in message


@pytest.mark.parametrize("method", ["lo-ir", "random"])
def test_every_method_refuses_an_unknown_layer(method: str, refused: Refused) -> None:
    message = refused("rank", CNN, *RANK[2:], "--layer", "lost", "--method", method)
    assert "Did you mean last?" in message


def test_a_model_without_a_classifier_inside_needs_a_layer_named(refused: Refused) -> None:
    assert "name one by --layer" in refused("rank", "shell_nets:bare", *RANK[2:])


@pytest.mark.parametrize("keep", [0, -1, 11])
@pytest.mark.parametrize("command", ["defend", "predict"])
def test_keep_lies_between_one_and_the_neurons(
    command: str, keep: int, ranking: str, refused: Refused
) -> None:
    end = ("--out", "new") if command == "defend" else ("--data", "data.npz", "--out", "new.csv")
    message = refused(command, CNN, "--ranking", ranking, "--keep", keep, *end)
    assert f"keep = {keep} is outside 1 to 10" in message


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("training", "shell_nets:training: CNN is in train mode"),
        ("probabilities", "look like probabilities; return logits"),
        ("indices", "The model returns (2,) torch.int64; expected floating-point logits"),
        ("absent", "shell_nets has no 'absent'"),
    ],
)
def test_a_model_that_is_no_classifier_in_eval_mode_is_refused(
    model: str, says: str, refused: Refused
) -> None:
    assert says in refused("rank", f"shell_nets:{model}", *RANK)


@pytest.mark.parametrize("method", ["lo-ir", "random"])
@pytest.mark.parametrize(
    ("layer", "says"),
    [
        ("pair", "'pair' returns a tuple, not one tensor"),
        ("relu", "'relu' is called more than once in a forward pass"),
    ],
)
def test_a_layer_without_one_output_is_refused(
    layer: str, says: str, method: str, refused: Refused
) -> None:
    rest = ("--data", "data.npz", "--out", "new.st", "--method", method)
    assert says in refused("rank", "shell_nets:twice", "--layer", layer, *rest)


def test_a_model_without_layers_has_none_to_list(refused: Refused) -> None:
    message = refused("layers", "shell_nets:bare", "--data", "data.npz")
    assert "Flatten has no layer inside" in message


def _images(value: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    images = np.full((3, 3, 8, 8), 0.5, np.float32)
    images[1, 2, 3, 4] = value
    return images


@pytest.mark.parametrize("command", ["layers", "rank", "predict"])
@pytest.mark.parametrize(
    ("pixel", "says"),
    [(1.5, "0.5 to 1.5"), (-0.1, "-0.1 to 0.5"), (np.nan, "without NaN")],
)
def test_pixels_outside_their_range_are_refused(
    pixel: float, says: str, command: str, refused: Refused
) -> None:
    np.savez("bad.npz", images=_images(pixel), labels=np.arange(3))
    end = {"rank": RANK[:2] + RANK[4:], "predict": ("--out", "new.csv")}.get(command, ())
    message = refused(command, CNN, "--data", "bad.npz", *end)
    assert "expected [0, 1] without NaN" in message
    assert says in message


@pytest.mark.parametrize("label", [-1, 3])
def test_labels_outside_the_classes_are_refused(label: int, refused: Refused) -> None:
    names = np.array(["cat", "dog", "bird"])
    np.savez("bad.npz", images=_images(0), labels=np.array([0, 1, label]), class_names=names)
    message = refused("rank", CNN, *RANK[:2], "--data", "bad.npz", *RANK[4:])
    assert f"Label {label} is outside the 3 classes" in message


@pytest.mark.parametrize("command", ["predict", "tune"])
def test_data_of_other_classes_is_refused(command: str, ranking: str, refused: Refused) -> None:
    np.savez("four.npz", images=np.zeros((4, 3, 8, 8), np.uint8), labels=np.arange(4))
    end = ("--ranking", ranking) if command == "tune" else ()
    message = refused(command, CNN, "--data", "four.npz", *end)
    assert "The model has 3 logits but the data 4 classes" in message


def test_images_of_the_wrong_size_are_refused(refused: Refused) -> None:
    np.savez("large.npz", images=np.zeros((3, 3, 9, 9), np.uint8), labels=np.arange(3))
    message = refused(
        "rank", "shell_nets:mlp", "--layer", "middle", "--data", "large.npz", *RANK[4:]
    )
    assert "The model cannot take images of 3 x 9 x 9" in message
    assert "Give images of the size it was trained on" in message


@pytest.mark.parametrize("command", ["tune", "defend", "predict"])
@pytest.mark.parametrize("kind", ["absent", "truncated", "text", "foreign", "empty"])
def test_a_file_that_is_no_whole_ranking_is_refused(
    kind: str, command: str, ranking: str, folder: Path, refused: Refused
) -> None:
    whole = Path(ranking).read_bytes()
    if kind in ("truncated", "text", "empty"):
        cut = {"truncated": whole[:-20], "text": b"scores: 1, 2, 3", "empty": b""}[kind]
        Path("bad.st").write_bytes(cut)
    elif kind != "absent":
        save_file({"scores": torch.zeros(3, 10)}, "bad.st")
    end = ("--out", "new", "--keep", 2) if command == "defend" else ("--data", "data.npz")
    end = (*end, "--keep", 2) if command == "predict" else end
    assert "bad.st" in refused(command, CNN, "--ranking", "bad.st", *end)


def test_a_ranking_of_another_model_is_refused_with_both_fingerprints(
    ranking: str, refused: Refused, igd: Igd
) -> None:
    fingerprints: set[str] = set()
    for model in (CNN, "shell_nets:other"):
        made = igd("rank", model, *RANK[:4], "--out", f"{len(fingerprints)}.st")
        assert made.code == 0
        header = Path(f"{len(fingerprints)}.st").read_bytes()
        fingerprints.add(header.split(b'model\\": \\"')[1][:16].decode())
    end = ("--ranking", ranking, "--keep", 3, "--out", "new")
    message = refused("defend", "shell_nets:other", *end)
    assert len(fingerprints) == 2
    assert all(fingerprint in message for fingerprint in fingerprints)
    assert igd("defend", "shell_nets:other", *end, "--force-ranking").code == 0


def test_a_checkpoint_that_needs_pickle_is_refused(refused: Refused) -> None:
    torch.save({"state_dict": {}, "path": Path()}, "model.pt")
    Path("plain.pt").write_bytes(pickle.dumps({"weights": [1.0]}))
    for name in ("model.pt", "plain.pt"):
        message = refused("layers", name, "--arch", "resnet18-w2")
        assert f"{name} needs pickle" in message


def test_an_existing_output_is_refused_without_force(
    ranking: str, refused: Refused, igd: Igd
) -> None:
    Path("new").mkdir()
    for name in ("new.st", "new.csv"):
        Path(name).write_text("mine")
    commands = {
        "new.st": ("rank", CNN, *RANK),
        "new.csv": ("predict", CNN, "--data", "data.npz", "--out", "new.csv"),
        "new": ("defend", CNN, "--ranking", ranking, "--keep", 3, "--out", "new"),
    }
    for name, command in commands.items():
        assert f"igd: {name} exists already" in refused(*command)
        assert igd(*command, "--force").code == 0


def test_an_output_below_a_file_is_refused_before_any_work(refused: Refused) -> None:
    assert "data.npz is not a folder" in refused("rank", "absent", "--out", "data.npz/new.st")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("tune", CNN, "--ranking", "r.st", "--sigma", "abc"), "'abc' is not a number"),
        (("tune", CNN, "--ranking", "r.st", "--sigma", "1/0"), "'1/0' is not a number"),
        (("tune", CNN, "--ranking", "r.st", "--sigma", "1e999"), "'1e999' is not a number"),
        (("tune", CNN, "--ranking", "r.st", "--tolerance", "x"), "'x' is not a number"),
        (("rank", CNN), "Missing option '--out'"),
        (("rank", CNN, *RANK, "--batch-size", "0"), "'--batch-size'"),
        (("rank", CNN, *RANK, "--method", "best"), "'--method'"),
        (("rank", CNN, *RANK, "--n", "0"), "n must be at least 1"),
        (("rank", CNN, *RANK, "--n", "99"), "holds 9 images, fewer than the 99"),
        (("rank", CNN, *RANK, "--seed", "1"), "--seed has no effect here"),
        (("rank", "nonsense", *RANK), "No model 'nonsense'"),
        (("rank", "embedded", *RANK, "--mean", "1,2"), "has 2 numbers"),
        (("rank", "embedded", *RANK, "--mean", "a,b,c"), "'a' is not a number"),
        (("ranks",), "No such command 'ranks'"),
        (("data", "show", "nonsense"), "Unknown data 'nonsense'"),
        (("data", "show", "folder:absent"), "absent is not a folder"),
        (("data", "cifar10", "--source", "moon", "--out", "new"), "Unknown source 'moon'"),
        (("data", "cifar10", "--out", "data.npz/new"), "data.npz is not a folder"),
        (("predict", CNN, "--ranking", "r.st"), "needs both --ranking and --keep"),
        (("predict", CNN, "--keep", "3"), "needs both --ranking and --keep"),
        (("predict", CNN, "--sigma", "0"), "--sigma has no effect here"),
        (("predict", CNN, "data.npz"), "data.npz is not a readable image"),
        (("predict", CNN, "absent.png"), "absent.png is not a readable image"),
        (("predict", CNN, "a.png", "--n", "1"), "--n has no effect here"),
        (("demo", "--n", "0"), "'--n'"),
        (("demo", "--workers", "0"), "'--workers'"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_a_mistake_in_the_command_is_one_sentence(
    arguments: tuple[str, ...], says: str, refused: Refused
) -> None:
    assert says in refused(*arguments)


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--sigma", "2", "sigma = 2 is outside [0, 1]"),
        ("--sigma=-1/255", None, "outside [0, 1]"),
        ("--samples", "0", "at least 1 noise image"),
        ("--temperature", "-1", "temperature = -1; expected a positive number, or 0"),
    ],
)
def test_a_setting_of_the_defense_outside_its_range_is_refused(
    option: str, value: str | None, says: str, ranking: str, refused: Refused
) -> None:
    setting = (option,) if value is None else (option, value)
    end = ("--ranking", ranking, "--keep", 3, "--out", "new")
    assert says in refused("defend", CNN, *end, *setting)


def test_a_tolerance_above_one_is_refused(ranking: str, refused: Refused) -> None:
    end = ("--ranking", ranking, "--data", "data.npz", "--tolerance", "5")
    assert "tolerance = 5" in refused("tune", CNN, *end)


@pytest.mark.parametrize("option", [("--address", "auto"), ("--gpus-per-worker", 1)])
def test_options_of_ray_are_refused_without_it(
    option: tuple[str, object], refused: Refused
) -> None:
    message = refused("rank", CNN, *RANK, *option)
    assert f"{option[0]} has no effect here: it is for --backend ray" in message


def test_a_random_ranking_is_not_spread(refused: Refused) -> None:
    message = refused("rank", CNN, *RANK, "--method", "random", "--workers", 2)
    assert "--workers has no effect here: a random ranking is no work" in message


def test_no_cluster_at_the_address_is_one_sentence(refused: Refused) -> None:
    message = refused("rank", CNN, *RANK, "--backend", "ray", "--address", "127.0.0.1:1")
    assert "No Ray cluster answers at '127.0.0.1:1'" in message
    assert "`ray start --head`" in message
