"""Outputs are whole or absent, and progress is only told, never in the way."""

import logging
from pathlib import Path

import pytest
from safetensors import SafetensorError

from igdefense.errors import OutputError
from igdefense.files import in_folder, refuse_existing, written_whole
from igdefense.progress import _logged


def fail(path: Path, error: BaseException) -> None:
    with written_whole(path) as part:
        part.write_text("half")
        raise error


def stop_in(folder: Path) -> None:
    with in_folder(folder):
        (folder / "checkpoint").touch()
        raise KeyboardInterrupt


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    with written_whole(tmp_path / "a" / "b" / "file") as part:
        part.write_text("whole")
        assert not (tmp_path / "a" / "b" / "file").exists()
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["file"]
    assert (tmp_path / "a" / "b" / "file").read_text() == "whole"


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()], ids=repr)
def test_a_failed_write_leaves_neither_file_nor_folder(
    error: BaseException, tmp_path: Path
) -> None:
    with pytest.raises(type(error)):
        fail(tmp_path / "a" / "b" / "file", error)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(ValueError, match="x"):
        fail(tmp_path / "file", ValueError("x"))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file": "old"}


@pytest.mark.parametrize("error", [OSError(28, "No space left"), SafetensorError("No space left")])
def test_a_full_disk_is_an_output_error(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="file cannot be written: No space left"):
        fail(tmp_path / "file", error)


def test_a_folder_with_something_in_it_outlives_a_failure(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        stop_in(tmp_path / "a")
    assert (tmp_path / "a" / "checkpoint").exists()


def test_a_name_too_long_for_a_file_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="File name too long"):
        refuse_existing(tmp_path / ("a" * 300), force=False)


def test_progress_passes_every_item_even_when_the_first_is_slow(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        assert list(_logged(range(3), "work", 3, every=-1)) == [0, 1, 2]
    assert [line.split(",")[0] for line in caplog.messages] == ["work: 1 of 3", "work: 2 of 3"]
