"""The command line as a user meets it, in a folder of its own."""

import logging
import sys
from pathlib import Path

import numpy as np
import pytest

from cli.shell import Ended, Igd, Refused
from igdefense.cli import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder; it holds nine small images in `data.npz`."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    images = rng.random((9, 3, 8, 8), dtype=np.float32)
    names = np.array(["cat", "dog", "bird"])
    np.savez(tmp_path / "data.npz", images=images, labels=np.arange(9) % 3, class_names=names)
    return tmp_path


@pytest.fixture
def igd(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Igd:
    """Run `igd` with these arguments."""

    def run(*arguments: object) -> Ended:
        root = logging.getLogger()
        handlers, level = root.handlers[:], root.level
        monkeypatch.setattr(sys, "argv", ["/somewhere/bin/igd", *map(str, arguments)])
        capsys.readouterr()
        try:
            with pytest.raises(SystemExit) as end:
                main()
        finally:
            root.handlers[:] = handlers
            root.setLevel(level)
        return Ended(end.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def refused(igd: Igd, folder: Path) -> Refused:
    """Run a command that must end in one sentence, exit code 2 and nothing written."""

    def run(*arguments: object) -> str:
        before = contents(folder)
        ended = igd("--quiet", *arguments)
        assert contents(folder) == before
        assert ended.code == 2
        assert ended.out == ""
        assert ended.err.startswith("igd: ")
        assert ended.err.count("\n") == 1
        assert ended.err.endswith((".\n", "?\n"))
        return ended.err

    return run


@pytest.fixture
def ranking(igd: Igd) -> str:
    """A ranking of `shell_nets:cnn` at `last`, ten neurons."""
    made = igd("rank", "shell_nets:cnn", "--layer", "last", "--data", "data.npz", "--out", "r.st")
    assert made.code == 0, made.err
    return "r.st"


def contents(folder: Path) -> dict[str, bytes]:
    """Every file and folder inside, with what the files hold."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }
