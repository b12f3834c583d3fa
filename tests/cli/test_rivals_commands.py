"""The rivals from the command line: evaluate, verify, cost and train sodef."""

import json
import sys
from pathlib import Path

import pytest

from cli.shell import Igd, Refused
from igdefense.defenses.rivals.head import Head

CNN = "shell_nets:cnn"
TINY = ["--data", "data.npz", "--n", "3", "--suite", "autoattack-rand", "--eps", "0.01"]
TINY += ["--budget", "steps=1", "--budget", "eot=1"]
DATA = ("--data", "data.npz", "--test", "data.npz", "--layer", "last")
TRAIN = ("train", "sodef", "--base", CNN, *DATA, "--phase-epochs", "1,1,1")


@pytest.fixture
def head(igd: Igd) -> str:
    """A head for `shell_nets:cnn`."""
    ended = igd(*TRAIN, "--seed", 3, "--out", "made")
    assert ended.code == 0, ended.err
    return "made/sodef.safetensors"


def test_the_card_tells_how_the_head_was_made_and_what_it_changes(igd: Igd, head: str) -> None:
    card = json.loads(Path("made/card.json").read_text())
    assert card["command"].startswith("igd train sodef --base shell_nets:cnn --data data.npz")
    assert (card["seed"], card["training images"], card["test"]["images"]) == (3, 9, 9)
    assert [record["phase"] for record in card["log"]] == [1, 2, 3]
    assert 0 <= card["test"]["changed"] <= 9
    assert card["base"] == Head.load(head).base


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("hedge", "--inner-steps", "2", "--gradient", "through"), "hedge (authors): suite"),
        (("anti-adversary", "--anti-adversary-eps", "8/255"), "gradients around"),
        (("sodef", "--sodef", "made/sodef.safetensors"), "gradients through"),
        (("sodef", "--sodef", "made/sodef.safetensors", "--gradient", "around"), "around"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_every_rival_is_evaluated_and_verified_from_its_run_alone(
    options: tuple[str, ...], says: str, igd: Igd, head: str
) -> None:
    ended = igd("evaluate", CNN, "--defense", *options, *TINY, "--out", "run")
    assert ended.code == 0, ended.err
    assert says in ended.out.splitlines()[0]
    Path(head).unlink()
    ended = igd("verify", "run")
    assert (ended.code, "every verdict repeated" in ended.out) == (0, True), ended.err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("hedge", "--inner-steps", "-1"), "steps = -1; the inner loop needs at least 1"),
        (("hedge", "--hedge-variant", "wu"), "'wu' is not one of 'authors', 'croce'"),
        (("anti-adversary", "--anti-adversary-eps", "8"), "eps = 8 is outside (0, 1]"),
        (("anti-adversary", "--gradient", "over"), "'over' is not one of"),
        (("sodef",), "This SODEF head was trained on a base model with fingerprint"),
        (("sodef", "--sodef", "absent"), "There is no SODEF head absent"),
        (("sodef", "--sodef", "data.npz"), "data.npz is not a whole SODEF head"),
        (("hedge", "--sodef", "made"), "--sodef has no effect here: the defense is hedge"),
        (("hedge", "--keep", "3"), "--keep has no effect here: the defense is hedge"),
        (("none", "--gradient", "around"), "--gradient has no effect here: the defense is none"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_sentence(options: tuple[str, ...], says: str, refused: Refused) -> None:
    assert says in refused("evaluate", CNN, "--defense", *options, *TINY, "--out", "run")


def test_without_the_extra_every_command_says_what_to_install(
    head: str, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torchdiffeq", None)
    options = ("--defense", "sodef", "--sodef", head)
    assert "igdefense[sodef]" in refused("evaluate", CNN, *options, *TINY, "--out", "run")
    assert "igdefense[sodef]" in refused(*TRAIN, "--out", "new")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--phase-epochs", "5,20"), "expected three numbers of at least 1"),
        (("--phase-epochs", "5,0,1"), "expected three numbers of at least 1"),
        (("--head", "wide"), "No head 'wide'; expected one of: rebuffi, trades"),
        (("--layer", "lost"), "Did you mean last?"),
        (("--epochs", "3"), "--epochs has no effect here: sodef has phases of its own"),
        (("--base", "shell_nets:absent"), "shell_nets has no 'absent'"),
        (("--out", "data.npz"), "data.npz is a file"),
    ],
    ids=" ".join,
)
def test_a_mistake_shows_before_the_training_of_a_head(
    arguments: tuple[str, ...], says: str, refused: Refused
) -> None:
    assert says in refused(*TRAIN, "--out", "new", *arguments)


def test_a_finished_head_is_refused_without_force(igd: Igd, head: str, refused: Refused) -> None:
    assert "made/card.json exists already" in refused(*TRAIN, "--out", "made")
    assert igd(*TRAIN, "--out", "made", "--force").code == 0
    assert "--base has no effect here: the recipe is fat" in refused(
        "train", "fat", "--base", CNN, "--out", "new"
    )


def test_cost_measures_every_defense_in_one_table(igd: Igd, head: str) -> None:
    measured = ("--layer", "last", "--data", "data.npz", "--batches", "1,4", "--rounds", 1)
    ended = igd("cost", CNN, *measured, "--sodef", head, "--out", "cost.json")
    assert ended.code == 0, ended.err
    rows = json.loads(Path("cost.json").read_text())["rows"]
    passes = {row["defense"]: tuple(row["passes"].values()) for row in rows if row["batch"] == 4}
    assert list(passes) == [
        *("base model", "IG-Defense, no smoothing", "IG-Defense", "hedge (authors)"),
        *("hedge (croce)", "anti-adversary", "sodef"),
    ]
    assert passes["IG-Defense"] == (2, 0)
    assert passes["hedge (croce)"] == (21, 20)
    assert len(ended.out.splitlines()) == 2 + 2 * 7


def test_cost_leaves_sodef_out_where_there_is_no_head(igd: Igd, refused: Refused) -> None:
    measured = ("--layer", "last", "--data", "data.npz", "--rounds", 1)
    ended = igd("cost", CNN, *measured, "--batches", "1")
    assert ended.code == 0
    assert "sodef is left out. This SODEF head was trained on" in ended.err
    assert "expected numbers of at least 1" in refused("cost", CNN, *measured, "--batches", "0,1")
    bare = refused("cost", "shell_nets:bare", *measured[2:], "--batches", "1")
    assert "name one by --layer" in bare
    assert "There is no SODEF head" in refused(
        "cost", CNN, *measured, "--batches", "1", "--sodef", "absent"
    )
