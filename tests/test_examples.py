"""The examples run as they are, and stay short."""

import runpy
from pathlib import Path

import pytest
import torch

from rankings.checkpoints import package

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(
    set(FOLDER.glob("*.py")) - set(FOLDER.glob("with_*.py"))
)  # test_dialects has those
NEEDS = {"timm_vit": "timm", "cluster": "ray"}
SLOW = ("cluster",)  # to start one


@pytest.mark.parametrize(
    "example",
    [pytest.param(e, marks=[pytest.mark.slow] if e.stem in SLOW else []) for e in EXAMPLES],
    ids=lambda path: path.stem,
)
def test_the_example_runs(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if example.stem in NEEDS:
        package(NEEDS[example.stem])
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng():
        runpy.run_path(str(example), run_name="__main__")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_is_short(example: Path) -> None:
    assert len(example.read_text().splitlines()) < 40
