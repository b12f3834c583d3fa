"""Data that is not part of the repository, for tests that skip where it is absent."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def shared_data(name: str) -> Path:
    """$IGDEFENSE_SHARED_DATA/NAME, or ../shared/data/NAME beside the repository."""
    named = os.environ.get("IGDEFENSE_SHARED_DATA")
    places = [Path(named)] if named else [up / "shared" / "data" for up in ROOT.parents[:2]]
    for place in places:
        if (place / name).is_dir():
            return place / name
    pytest.skip(f"there is no ../shared/data/{name} ($IGDEFENSE_SHARED_DATA)")
