import sys
from pathlib import Path

import pytest

from igdefense.cli import main

SMALL = ["--suite", "quick", "--n", "6", "--mode", "cascade"]
for pair in ("steps=1", "targets=1", "transfer_targets=1", "fab_steps=1", "eot=1"):
    SMALL += ["--budget", pair]
SMALL += ["--budget", "square_queries=2", "--budget", "rays_queries=2"]


def igd(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["igd", *arguments])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.mark.parametrize("defense", ["lo-ir", "cd-ir"])
def test_a_run_prints_its_table_and_verifies(
    defense: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "run"
    arguments = ["evaluate", "embedded", "--defense", defense, "--keep", "16", *SMALL]
    assert igd(monkeypatch, *arguments, "--out", str(out)) == 0
    table = capsys.readouterr().out
    assert "IW-WC" in table
    assert f"embedded, {defense}-16" in table
    assert "n = 6, L-inf 8/255, seed 0" in table
    assert igd(monkeypatch, "verify", str(out)) == 0
    assert "every verdict repeated" in capsys.readouterr().out
    assert igd(monkeypatch, "diff", str(out), str(out), "--out", str(tmp_path / "diff.json")) == 0
    assert capsys.readouterr().out.count("no difference shown at this n") == 8
    assert (tmp_path / "diff.json").is_file()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (["--eps", "0"], "eps = 0 is outside (0, 1]"),
        (["--eps", "2"], "eps = 2 is outside (0, 1]"),
        (["--n", "100000"], "fewer than the 100,000 asked for"),
        (["--budget", "steps"], "expected NAME=N"),
        (["--workers", "0"], "workers = 0"),
        (["--keep", "1000"], "keep = 1000 is outside 1 to 128"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(
    wrong: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "run"
    arguments = ["evaluate", "embedded", "--defense", "lo-ir", "--keep", "16", *SMALL, *wrong]
    assert igd(monkeypatch, *arguments, "--out", str(out)) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("igd:")]
    assert len(lines) == 1
    assert sentence in lines[0]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_no_run_cannot_be_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert igd(monkeypatch, "verify", str(tmp_path)) == 2
    assert "does not hold a finished run" in capsys.readouterr().err
