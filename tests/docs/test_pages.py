"""What the pages say can be done is done."""

import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pages import DOCS, ROOT, Block, blocks, follow, patch, write

INTO = "## Into the project"
HOW_TO = ("add-an-attack.md", "add-a-ranking.md", "add-a-rival.md")
TUTORIAL = "tutorial.md"
FEWER = {  # the tutorial's numbers, small enough for every day
    r"--n \d+": "--n 10",
    r"(igd evaluate.*)--n 10": r"\1--n 2",
    r"--suite quick": "--suite quick --budget steps=2 --budget rays_queries=10 --budget "
    "square_queries=5 --budget fab_steps=2 --draws 2",
    r"igd report.*\n": "",  # tested by itself, and drawing the neurons takes a while
}
OTHERS = sorted(
    str(page.relative_to(DOCS))
    for page in DOCS.rglob("*.md")
    if page.name not in (*HOW_TO, TUTORIAL) and any(b.language == "python" for b in blocks(page))
)


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """The commands set up the log; afterwards it is as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize("page", HOW_TO)
def test_who_follows_the_page_has_added_it(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow(blocks(DOCS / page, INTO), tmp_path, monkeypatch, shell=True)


def test_the_tutorial_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = []
    for block in blocks(DOCS / TUTORIAL):
        text = block.text
        for pattern, small in FEWER.items():
            text = re.sub(pattern, small, text) if block.language == "sh" else text
        fewer.append(replace(block, text=text))
    follow(fewer, tmp_path, monkeypatch, shell=True)


@pytest.mark.slow
def test_the_tutorial_can_be_followed_to_the_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow(blocks(DOCS / TUTORIAL), tmp_path, monkeypatch, shell=True)
    assert (tmp_path / "page.html").stat().st_size > 1e6


@pytest.mark.parametrize("page", OTHERS)
def test_the_python_on_the_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow(blocks(DOCS / page), tmp_path, monkeypatch, shell=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", HOW_TO)
def test_who_follows_the_page_has_it_in_the_project(page: str, tmp_path: Path) -> None:
    for name in ("src", "tests", "benchmarks", "pyproject.toml", "CHANGELOG.md"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "src"), "PATH": path}
    for block in blocks(DOCS / page, INTO):
        if block.title is not None:
            write(block, tmp_path)
    for block in blocks(DOCS / page)[len(blocks(DOCS / page, INTO)) :]:
        if block.language == "diff":
            patch(block, tmp_path)
        elif block.title is not None:
            write(block, tmp_path)
        else:
            assert block.language == "sh"
            subprocess.run(["sh", "-ec", block.text], cwd=tmp_path, env=env, check=True)


def test_a_block_that_names_no_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n")
    patch(Block("diff", "a.py", " one\n+between\n"), tmp_path)
    assert (tmp_path / "a.py").read_text() == "one\nbetween\ntwo\n"
    with pytest.raises(AssertionError, match=r"a.py has no line 'three'"):
        patch(Block("diff", "a.py", " three\n+four\n"), tmp_path)


def test_only_a_block_that_says_why_is_left_out(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    block = "```python\n{}\n```\n"
    page.write_text(f"<!-- not run: too long -->\n{block.format('a')}\n{block.format('b')}")
    assert [found.text for found in blocks(page)] == ["b\n"]
    page.write_text(f"<!-- not run -->\n{block.format('a')}")
    assert [found.text for found in blocks(page)] == ["a\n"]
