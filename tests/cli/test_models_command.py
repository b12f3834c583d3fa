"""`igd models`: the list, a card, and AutoAttack's accuracy added to one."""

import json
from pathlib import Path

import numpy as np
import pytest

from cli.shell import Igd, Refused
from igdefense.models import zoo


def test_the_list_has_every_model_with_its_numbers(igd: Igd) -> None:
    ended = igd("models")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == list(zoo())
    assert lines[1].split()[:5] == ["resnet18-w16-fat", "cifar10", "FAT", "74.85", "41.27"]
    assert lines[-1].startswith("`embedded` is resnet18-w16-fat")


def test_a_card_is_json_with_the_log_on_request(igd: Igd) -> None:
    card = json.loads(igd("models", "card", "embedded").out)
    assert (card["arch"], card["seed"], card["log"]) == ("resnet18-w16", 0, 24)
    whole = json.loads(igd("models", "card", "zoo:resnet18-w16-fat", "--log").out)
    assert len(whole["log"]) == 24


@pytest.fixture
def trained(igd: Igd, folder: Path) -> str:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (16, 3, 32, 32), dtype=np.uint8)
    np.savez(folder / "train.npz", images=images, labels=np.arange(16) % 4)
    np.savez(folder / "test.npz", images=images[:4], labels=np.arange(4))
    names = ("--data", "train.npz", "--test", "test.npz", "--arch", "resnet18-w2")
    short = ("--epochs", 1, "--batch", 16, "--pgd-steps", 1)
    assert igd("train", "fat", *names, *short, "--out", "made").code == 0
    return "made"


def test_measuring_adds_autoattack_and_refuses_to_do_it_twice(
    trained: str, igd: Igd, refused: Refused
) -> None:
    before = json.loads(Path(trained, "card.json").read_text())
    ended = igd("models", "measure", trained, "--n", 2)
    assert ended.code == 0, ended.err
    card = json.loads(Path(trained, "card.json").read_text())
    added = card.pop("autoattack")
    assert card == before
    assert (added["images"], added["eps"]) == (2, "8/255")
    assert 0 <= added["autoattack"] <= added["clean"] <= 1
    assert "has AutoAttack's accuracy already" in refused("models", "measure", trained)


def test_a_card_of_other_weights_is_refused(trained: str, refused: Refused) -> None:
    card = json.loads(Path(trained, "card.json").read_text())
    Path(trained, "card.json").write_text(json.dumps(card | {"fingerprint": "0" * 16}))
    assert "is not the model of made/card.json" in refused("models", "measure", trained)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("card", "embeded"), "The zoo has no model 'embeded'. Did you mean embedded?"),
        (("measure", "absent"), "absent/card.json is missing: name a folder of `igd train`"),
    ],
)
def test_what_does_not_exist_is_named(
    arguments: tuple[str, ...], says: str, refused: Refused
) -> None:
    assert says in refused("models", *arguments)


def test_a_card_that_is_none_is_refused(refused: Refused) -> None:
    Path("made").mkdir()
    Path("made/card.json").write_text("[]")
    assert "made/card.json is not a model's card" in refused("models", "measure", "made")
