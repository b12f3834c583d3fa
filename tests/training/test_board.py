"""The log for TensorBoard, read back by TensorBoard."""

import sys
import warnings
from pathlib import Path

import pytest

from igdefense.errors import SettingError
from igdefense.training.board import Board, check_board


def test_a_resumed_log_replaces_what_came_after(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tensorboard's own imports
        from tensorboard.backend.event_processing.event_accumulator import (  # noqa: PLC0415
            EventAccumulator,
        )
    board = Board(tmp_path)
    for step in (1, 2, 3):
        board.write({"loss": 10.0 * step}, step)
    board.close()
    board = Board(tmp_path, first=3)
    board.write({"loss": 7.0}, 3)
    board.close()
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(1, 10.0), (2, 20.0), (3, 7.0)]


def test_without_a_folder_nothing_is_needed() -> None:
    board = Board(None)
    board.write({"loss": 1.0}, 1)
    board.close()


def test_a_missing_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(SettingError, match=r"pip install 'igdefense\[tensorboard\]'"):
        check_board(tmp_path)
