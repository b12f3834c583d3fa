"""The command line, as in `tests/cli`."""

from cli.conftest import folder, igd

__all__ = ["folder", "igd"]
