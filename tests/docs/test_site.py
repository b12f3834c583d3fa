"""The documentation builds strictly, and what is built needs nobody else."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

import igdefense
from documentation.mathml import on_page_content
from documentation.pictures.__main__ import FOLDER, PICTURES
from documentation.pictures.canvas import written
from documentation.public_names import exported, names_of
from pages import DOCS, ROOT

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
LOADED = re.compile(r'<(?:script|img|iframe)[^>]* src="([^"]*)"|<link[^>]* href="([^"]*)"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; a warning of the build is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        [*command, str(folder)], check=False, cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = {page: page.read_text() for page in site.rglob("*.html")}
    for page, text in pages.items():
        loaded = [source or link for source, link in LOADED.findall(text)]
        assert loaded
        assert not [address for address in loaded if "//" in address], page
        assert 'class="arithmatex"' not in text, f"{page}: a formula was left"
    reference = "".join(text for page, text in pages.items() if page.parent.name == "api")
    names = set(igdefense.__all__) - {"__version__"}
    assert not [name for name in sorted(names) if f'.{name}"' not in reference]


@pytest.mark.slow
def test_the_search_works_from_disk_without_a_network(site: Path) -> None:
    if not CHROMIUM:
        pytest.skip("There is no Chromium here: apt-get install chromium.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(offline=True).new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("requestfailed", lambda request: wrong.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.keyboard.press("/")
        page.keyboard.type("soft-WPMI")
        page.wait_for_selector(".md-search-result__item a[href*='method']", timeout=30_000)
        browser.close()
    assert not wrong


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
@pytest.mark.parametrize("name", ["defense", "views", "auto-attack", "gradient", "targets", "rays"])
def test_the_script_draws_the_picture_again(name: str) -> None:
    assert written(PICTURES[name]()) == (FOLDER / f"{name}.svg").read_text()
