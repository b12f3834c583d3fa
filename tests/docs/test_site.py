"""The documentation builds strictly, and what is built needs nobody else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import igdefense
from documentation.mathml import on_page_content
from documentation.pictures.__main__ import FOLDER, PICTURES
from documentation.pictures.canvas import written
from documentation.public_names import exported, names_of
from pages import DOCS, ROOT

LOADED = re.compile(r'<(?:script|img|iframe)[^>]* src="([^"]*)"|<link[^>]* href="([^"]*)"')


def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        [*command, str(tmp_path)], check=False, cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout + built.stderr
    pages = {page: page.read_text() for page in tmp_path.rglob("*.html")}
    for page, text in pages.items():
        loaded = [source or link for source, link in LOADED.findall(text)]
        assert loaded
        assert not [address for address in loaded if "//" in address], page
        assert "\\(" not in text or "arithmatex" not in text, f"{page}: a formula was left"
    reference = "".join(text for page, text in pages.items() if page.parent.name == "api")
    names = set(igdefense.__all__) - {"__version__"}
    assert not [name for name in sorted(names) if f'.{name}"' not in reference]
    assert (tmp_path / "search" / "search_index.js").exists()  # searched without a server


def test_names_come_in_the_order_of_the_data_path() -> None:
    stages = [path.split(".")[1] for path in exported(ROOT / "src/igdefense/__init__.py")]
    assert stages.index("rankings") < stages.index("defenses") < stages.index("verdicts")
    assert names_of("rankings")[0] == "igdefense.rankings.ranking.Ranking"
    assert "igdefense.attacks.apgd.APGD" in names_of("attacks/")


def test_formulas_become_mathml() -> None:
    page = '<p>so <span class="arithmatex">\\(a &lt; b\\)</span></p>'
    made = on_page_content(page)
    assert re.fullmatch(
        r'<p>so <math [^>]*display="inline">.*<mi>a</mi>.*<mi>b</mi>.*</math></p>', made
    )


def test_every_picture_is_drawn_by_its_script_and_shown_on_a_page() -> None:
    shown = {
        name
        for page in DOCS.glob("*.md")
        for name in re.findall(r"pictures/([\w-]+)\.svg", page.read_text())
    }
    assert shown == set(PICTURES) == {path.stem for path in FOLDER.glob("*.svg")}
    assert max(path.stat().st_size for path in FOLDER.glob("*.svg")) < 100_000


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_the_script_draws_the_picture_again(name: str) -> None:
    assert written(PICTURES[name]()) == (FOLDER / f"{name}.svg").read_text()
