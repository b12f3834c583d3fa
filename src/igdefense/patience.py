"""Try again while a store does not answer, and say so."""

import errno
import logging
import time
from collections.abc import Callable
from typing import TypeVar

from igdefense.errors import OutputError

log = logging.getLogger(__name__)
T = TypeVar("T")

PATIENCE = 300.0  # seconds
LONGEST = 8.0  # seconds between two tries
AWAY = {
    getattr(errno, name)
    for name in (
        *("EIO", "ESTALE", "ETIMEDOUT", "ENOTCONN", "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN"),
        *("ENETUNREACH", "ECONNREFUSED", "ECONNRESET", "EREMOTEIO"),
    )
    if hasattr(errno, name)
}
"""What a shared folder says when its server is away."""


def patiently(
    action: Callable[[], T],
    what: str,
    away: Callable[[Exception], bool],
    patience: float | None = None,
) -> T:
    """The action's result; while its errors mean that `what` is away, it is tried again."""
    limit = PATIENCE if patience is None else patience
    started, pause, reason = time.monotonic(), 0.25, ""
    while True:
        try:
            result = action()
        except Exception as error:
            if not away(error):
                raise
            if not reason:
                reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
                log.warning("%s does not answer (%s); trying again.", what, reason)
            spent = time.monotonic() - started
            if spent + pause > limit:
                raise OutputError(
                    f"{what} has not answered for {spent:.0f} s ({reason}). What was finished is "
                    "kept: the same command goes on from there."
                ) from error
            time.sleep(pause)
            pause = min(2 * pause, LONGEST)
        else:
            if reason:
                log.warning("%s answers again after %.0f s.", what, time.monotonic() - started)
            return result


def folder_away(error: Exception) -> bool:
    """Whether the error, or the one it stands for, is that of a folder whose server is away."""
    found = error if isinstance(error, OSError) else error.__cause__
    return isinstance(found, OSError) and found.errno in AWAY
