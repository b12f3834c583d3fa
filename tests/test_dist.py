"""What is handed out: one version everywhere, and a wheel with its data inside."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from igdefense import __version__

ROOT = Path(__file__).parents[1]
INSIDE = (
    "igdefense/py.typed",
    "igdefense/models/weights/resnet18-w16-fat.safetensors",
    "igdefense/data/images/probe.webp",
    "igdefense/data/images/test.webp",
    "igdefense/rankings/encoders/weights/encoder.safetensors",
    "igdefense/report/templates/page.html.j2",
)


@pytest.mark.parametrize("file", ["pyproject.toml", "CITATION.cff"])
def test_the_version_is_the_packages(file: str) -> None:
    (version,) = re.findall(r'^version[ =:]+"?([\d.]+)"?$', (ROOT / file).read_text(), flags=re.M)
    assert version == __version__


def test_the_changelog_lists_changed_numbers_and_the_commands_there_are() -> None:
    from igdefense.cli.app import ORDER  # noqa: PLC0415  (the program itself)

    unreleased = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1]
    assert "### Numbers\n- " in unreleased
    (listed,) = re.findall(r"^- Commands `igd (.*?)`", unreleased, flags=re.M | re.S)
    assert {name.strip() for name in listed.split("|")} == set(ORDER)


@pytest.mark.parametrize(("file", "most"), [("CONTRIBUTING.md", 40), ("SECURITY.md", 60)])
def test_it_is_read_in_a_minute(file: str, most: int) -> None:
    assert len((ROOT / file).read_text().splitlines()) <= most


@pytest.mark.slow
def test_wheel_and_sdist_pass_twine_and_hold_the_embedded_data(tmp_path: Path) -> None:
    def run(*arguments: object) -> str:
        command = [sys.executable, "-m", *map(str, arguments)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("build", "--outdir", tmp_path, ".")
    (wheel,), (sdist,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    assert run("twine", "check", "--strict", wheel, sdist).count("PASSED") == 2
    assert set(INSIDE) <= set(zipfile.ZipFile(wheel).namelist())
