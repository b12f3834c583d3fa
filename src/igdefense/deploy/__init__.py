"""A model or defense as one file that runs without this package."""

from igdefense.deploy.exported import Exported, load_exported
from igdefense.deploy.exporting import Export, export

__all__ = ["Export", "Exported", "export", "load_exported"]
