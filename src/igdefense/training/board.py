"""A log that TensorBoard reads."""

from pathlib import Path
from typing import Any

from igdefense.errors import SettingError


class Board:
    """Numbers by step, in a folder for `tensorboard --logdir`; without a folder, nothing."""

    def __init__(self, folder: Path | None, first: int = 0) -> None:
        self.writer: Any = None
        if folder is not None:
            writer = _writer_class()
            self.writer = writer(str(folder), purge_step=first)  # a resumed run replaces its tail

    def write(self, numbers: dict[str, float], step: int) -> None:
        if self.writer is not None:
            for name, value in numbers.items():
                self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def check_board(folder: Path | None) -> None:
    """Refuse a log that cannot be written, before any work."""
    if folder is not None:
        _writer_class()
        if folder.exists() and not folder.is_dir():
            raise SettingError(f"{folder} is a file; --tensorboard names a folder.")


def _writer_class() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415  (optional)
    except ImportError as error:
        raise SettingError(
            "A TensorBoard log needs the package tensorboard: pip install 'igdefense[tensorboard]'."
        ) from error
    return SummaryWriter
