"""The command line: one command for each stage of the data path."""

from igdefense.cli.app import main

__all__ = ["main"]
