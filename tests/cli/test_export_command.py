"""`igd export`, and `igd predict` on what it writes."""

from pathlib import Path

import pytest

from cli.shell import Igd, Refused
from handmade import handmade


@pytest.fixture
def defended(igd: Igd, ranking: str) -> str:
    made = igd("defend", "shell_nets:cnn", "--ranking", ranking, "--keep", 5, "--out", "defended")
    assert made.code == 0, made.err
    return "defended"


def test_an_exported_defense_predicts_what_the_saved_one_does(igd: Igd, defended: str) -> None:
    frozen = ("--noise", "off", "--size", 8)
    made = igd("export", defended, "--format", "torch-export", *frozen, "--out", "graph.pt2")
    assert made.code == 0, made.err
    assert "dynamic batch, deterministic" in made.out
    data = ("--data", "data.npz", "--batch-size", 4)
    ours = igd("predict", "graph.pt2", "--trust", *data)
    assert ours.code == 0, ours.err
    rows = [line.split(",") for line in ours.out.splitlines()]
    assert rows[0] == ["image", "label", "prediction", "probability", "correct"]
    assert len(rows) == 10

    base = igd("export", "shell_nets:cnn", "--size", 8, "--out", "base.onnx")
    assert base.code == 0, base.err
    theirs = igd("predict", "shell_nets:cnn", *data)
    assert igd("predict", "base.onnx", *data).out == theirs.out


def test_what_makes_no_sense_is_refused(refused: Refused, defended: str) -> None:
    assert "has no effect" in refused(
        "export", "shell_nets:cnn", "--noise", "off", "--out", "a.onnx"
    )
    assert "names no format" in refused("export", defended, "--out", "a.bin")
    assert "named *.pt2" in refused(
        "export", defended, "--format", "torch-export", "--out", "a.onnx"
    )
    Path("theirs.pt2").write_bytes(b"anything")
    assert "--trust" in refused("predict", "theirs.pt2")
    Path("bad.onnx").write_bytes(b"anything")
    assert "cannot be run by ONNX Runtime" in refused("predict", "bad.onnx")
    assert "There is no file" in refused("predict", "none.onnx")
    assert "is an exported graph" in refused("predict", "bad.onnx", "--keep", 3)


def test_a_run_becomes_a_model_info_file(igd: Igd, folder: Path) -> None:
    handmade("11", {"autoattack": "10"}).save(folder / "run")
    made = igd("model-info", "run", "--out", "info.json", "--passes", 2)
    assert made.out == "clean 100.00, autoattack 50.00, IW-WC 50.00 -> info.json\n"
    assert '"number_forward_passes": 2' in Path("info.json").read_text()
