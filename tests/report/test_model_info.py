"""Results go to RobustBench's form and come back."""

import ast
import importlib.util
import json
from pathlib import Path

import pytest

from handmade import handmade
from igdefense import ModelInfo
from igdefense.cli.report import read_published
from igdefense.errors import DataError

# The fields of an entry whose defense was broken by others than AutoAttack.
THEIRS = {
    "link": "https://example.org/paper",
    "name": "A title",
    "authors": "A. Uthor, C. O. Author",
    "additional_data": True,
    "number_forward_passes": 1,
    "dataset": "cifar10",
    "venue": "Somewhere 2021",
    "architecture": "WideResNet-70-16",
    "eps": "8/255",
    "clean_acc": "93.73",
    "reported": "71.28",
    "autoattack_acc": "71.28",
    "external": "64.20",
    "footnote": "Transfer from the base model.",
    "unreliable": True,
}


def test_a_file_of_theirs_comes_back_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "theirs.json").write_text(json.dumps(THEIRS))
    info = ModelInfo.load(tmp_path / "theirs.json")
    assert info.published == {"clean": 93.73, "autoattack": 71.28, "IW-WC": 64.2}
    assert info.eps == 8 / 255
    info.save(tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text()) == THEIRS


def test_the_page_shows_their_numbers_beside_the_first_run(tmp_path: Path) -> None:
    (tmp_path / "theirs.json").write_text(json.dumps(THEIRS))
    shown = read_published(str(tmp_path / "theirs.json"), "base")
    assert shown == {"base": {"clean": 93.73, "autoattack": 71.28, "IW-WC": 64.2}}
    (tmp_path / "ours.json").write_text('{"lo-ir": {"IW-WC": 53.3}}')
    assert read_published(str(tmp_path / "ours.json"), "base") == {"lo-ir": {"IW-WC": 53.3}}


def test_what_benchmark_writes_is_in_shares_and_has_empty_fields() -> None:
    info = ModelInfo.from_json({"clean_acc": 0.85, "autoattack_acc": 0.5, "eps": 0.5, "link": None})
    assert info.published == {"clean": 85, "autoattack": 50, "IW-WC": 50}
    assert info.to_json()["eps"] == "0.5"


def test_a_run_gives_clean_autoattack_and_its_worst_case() -> None:
    run = handmade("11111110", {"autoattack": "11110000", "rays": "11000000"})
    record = ModelInfo.of(run, dataset="cifar10", venue=None).to_json()
    assert record == {
        "name": "by hand",
        "dataset": "cifar10",
        "eps": "8/255",
        "clean_acc": "87.50",
        "autoattack_acc": "50.00",
        "external": "25.00",
        "footnote": "igdefense: worst case over 2 attacks (suite paper), 8 images, seed 0",
        "unreliable": True,  # another attack went further
    }
    assert ModelInfo.of(handmade("11", {"autoattack": "10"})).unreliable is False
    assert ModelInfo.of(handmade("11", {"rays": "10"})).autoattack_acc is None


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"clean_acc": "930"}, "clean_acc is '930'; expected an accuracy from 0 to 100"),
        ({"clean_acc": [1]}, "clean_acc is"),
        ({"clean_acc": "93", "eps": "8/0"}, "eps is '8/0'"),
        ({"accuracy": 3}, "no model_info file"),
    ],
)
def test_what_is_no_such_file_is_refused(
    record: dict[str, object], message: str, tmp_path: Path
) -> None:
    (tmp_path / "file.json").write_text(json.dumps(record))
    with pytest.raises(DataError, match=message):
        ModelInfo.load(tmp_path / "file.json")


def test_the_fields_are_those_of_the_installed_robustbench() -> None:
    found = importlib.util.find_spec("robustbench")  # read, not imported: it needs much else
    if found is None or found.origin is None:
        pytest.skip("robustbench is not installed")
    tree = ast.parse((Path(found.origin).parent / "utils.py").read_text())
    (theirs,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "ModelInfo")
    names = [ast.unparse(line.target) for line in theirs.body if isinstance(line, ast.AnnAssign)]
    assert "autoattack_acc" in names
    assert set(names) <= set(ModelInfo.__dataclass_fields__)
