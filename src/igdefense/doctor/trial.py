"""Try a piece of code in a process of its own, where it may crash."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

TIMEOUT = 300  # seconds; the largest packages take ten on a busy machine


@dataclass(frozen=True)
class Trial:
    """How it ended: what it printed, and why it did not end well."""

    out: str
    reason: str | None
    crashed: bool = False

    @property
    def worked(self) -> bool:
        return self.reason is None


def tried(code: str, env: Mapping[str, str] | None = None, timeout: float = TIMEOUT) -> Trial:
    """Run the code with this Python; an exception, a signal and silence are told apart."""
    command = [sys.executable, "-c", code]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Trial("", f"no answer within {timeout:g} s")
    if done.returncode == 0:
        return Trial(done.stdout, None)
    if done.returncode < 0:
        return Trial(done.stdout, f"crashes with {_signal(-done.returncode)}", crashed=True)
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return Trial(done.stdout, (lines or [f"exit code {done.returncode}"])[-1].rstrip("."))


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
