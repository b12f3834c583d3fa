"""Follow a page of the documentation: write the files its blocks name, run what it runs."""

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from igdefense.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
NOT_RUN = re.compile(r"^<!-- not run: [^\n]+ -->\n```.*?^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file it names and its text."""

    language: str
    title: str | None
    text: str


def blocks(page: Path, section: str | None = None) -> list[Block]:
    """The blocks of a page but those marked as not run; up to a section, if one is named."""
    text = NOT_RUN.sub("", page.read_text())
    if section is not None:
        assert section in text, f"{page.name} has no section {section!r}"
        text = text[: text.index(section)]
    return [Block(language, title or None, code) for language, title, code in BLOCK.findall(text)]


def write(block: Block, folder: Path) -> None:
    """The file that a block names."""
    assert block.title is not None
    path = folder / block.title
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text)


def patch(block: Block, folder: Path) -> None:
    """Add the lines marked `+` after the first line that is the one before them."""
    assert block.title is not None
    path = folder / block.title
    lines = path.read_text().split("\n")
    place = None
    for line in block.text.splitlines():
        if line.startswith("+"):
            assert place is not None, f"{block.title}: nothing says where {line!r} goes"
            place += 1
            lines.insert(place, line[1:])
        else:
            assert line[1:] in lines, f"{block.title} has no line {line[1:]!r}"
            place = lines.index(line[1:])
    path.write_text("\n".join(lines))


def run_igd(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every `igd` command of a shell block; other commands are not for here."""
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        assert words[0] == "igd", f"a page runs {words[0]}"
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 0, line


def follow(
    page: list[Block], folder: Path, monkeypatch: pytest.MonkeyPatch, *, shell: bool
) -> None:
    """Write, run and type what the blocks say, in one go and in `folder`."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    known = set(sys.modules)
    names: dict[str, Any] = {"__name__": "page"}
    try:
        for block in page:
            if block.title is not None:
                write(block, folder)
            elif block.language == "python":
                exec(compile(block.text, "page", "exec"), names)
            elif block.language == "sh" and shell:
                run_igd(block, monkeypatch)
    finally:
        for name in set(sys.modules) - known:
            if (folder / f"{name}.py").exists():
                del sys.modules[name]
