"""The doctor finds what is broken, and says so without breaking."""

import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from cli.shell import Ended
from igdefense.doctor import Finding, machine
from igdefense.doctor.core import core
from igdefense.doctor.extras import core_findings, extra_finding, requirements
from igdefense.doctor.trial import tried

DIES = "import os, signal\nos.kill(os.getpid(), signal.SIGILL)\n"
PACKAGES = {
    "hale": "",
    "lame": "raise RuntimeError('operator torchvision::nms does not exist')",
    "deadly": DIES,
}
Install = Callable[..., metadata.Distribution]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """A package `igdefense` with these requirements, beside three others."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for name, code in PACKAGES.items():
        (tmp_path / f"{name}_module.py").write_text(code)
        info = tmp_path / f"{name}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
        (info / "top_level.txt").write_text(f"{name}_module\n")

    def made(*lines: str) -> metadata.Distribution:
        info = tmp_path / "igdefense-0.dist-info"
        info.mkdir()
        text = "\n".join(["Metadata-Version: 2.1", "Name: igdefense", "Version: 0", *lines])
        (info / "METADATA").write_text(text + "\n")
        return metadata.PathDistribution(info)

    return made


def test_an_exception_a_crash_and_success_are_told_apart() -> None:
    assert tried("print('fine')") == tried("print('fine')")
    assert tried("print('fine')").worked
    failed = tried("raise ValueError('so and so.')")
    assert failed.reason == "ValueError: so and so"
    assert not failed.crashed
    dead = tried(DIES)
    assert dead.reason == "crashes with SIGILL"
    assert dead.crashed
    assert tried("import time; time.sleep(9)", timeout=0.2).reason == "no answer within 0.2 s"


def test_the_extras_are_those_of_the_metadata_and_may_ask_for_each_other(install: Install) -> None:
    wanted = requirements(
        install(
            "Requires-Dist: hale>=1",
            'Requires-Dist: lame>=1; extra == "one"',
            'Requires-Dist: igdefense[one]; extra == "all"',
            'Requires-Dist: deadly; extra == "all"',
            'Requires-Dist: nowhere; sys_platform == "none" and extra == "all"',
            "Provides-Extra: one",
            "Provides-Extra: all",
        )
    )
    assert {extra: [r.name for r in needs] for extra, needs in wanted.items()} == {
        "": ["hale"],
        "one": ["lame"],
        "all": ["lame", "deadly"],
    }


@pytest.mark.parametrize(
    ("needs", "state", "says", "todo"),
    [
        ("hale", "ok", "hale 1.5", ""),
        ("hale>=2", "absent", "hale 1.5 does not meet >=2", "pip install 'igdefense[x]'"),
        ("nowhere", "absent", "nowhere is not installed", "pip install 'igdefense[x]'"),
        ("lame", "broken", "import lame_module: RuntimeError", "torchvision does not fit"),
        ("deadly", "broken", "import deadly_module: crashes with SIGILL", "reinstall deadly"),
    ],
)
def test_an_extra_works_is_absent_or_is_broken(
    needs: str, state: str, says: str, todo: str, install: Install
) -> None:
    made = install(f'Requires-Dist: {needs}; extra == "x"', "Provides-Extra: x")
    finding = extra_finding("x", requirements(made)["x"])
    assert finding.state == state
    assert finding.says.startswith(says)
    assert finding.todo.startswith(todo)


def test_an_old_requirement_of_the_core_is_named(install: Install) -> None:
    wanted = requirements(install("Requires-Dist: hale>=2", "Requires-Dist: lame"))[""]
    (finding,) = core_findings(wanted)
    assert finding.core
    assert finding.todo == "pip install --upgrade 'hale>=2'"
    assert core_findings(wanted[1:]) == []


def test_bf16_that_kills_the_process_is_found_and_so_is_what_helps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(machine.ISA, raising=False)
    unless = f"import os, sys\nif {machine.ISA!r} in os.environ: sys.exit()\n"
    monkeypatch.setattr(machine, "BF16", unless + DIES)
    finding = machine.bf16()
    assert (finding.state, finding.says) == ("broken", "crashes with SIGILL")
    assert f"{machine.ISA}=AVX512_CORE_BF16 in the environment it works" in finding.todo
    monkeypatch.setattr(machine, "BF16", DIES)
    assert machine.ISA not in machine.bf16().todo


def test_torchvision_may_be_missing_but_not_half_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "torchvision.py").write_text(PACKAGES["lame"])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(machine, "TORCHVISION", "import torchvision")
    assert machine.torchvision().state == "broken"
    assert "as a pair" in machine.torchvision().todo
    (tmp_path / "torchvision.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'torchvision'\")"
    )
    assert machine.torchvision().state == "absent"


def test_the_disk_of_a_store_that_is_not_there_yet_is_its_parents(tmp_path: Path) -> None:
    store = tmp_path / "runs" / ".store"
    assert machine.disk(store, least=1).state == "ok"
    full = machine.disk(store, least=1e18)
    assert full.state == "broken"
    assert full.todo.startswith("choose a --store")
    assert not store.parent.exists()


def test_the_core_works_here() -> None:
    assert core().state == "ok"


@pytest.mark.parametrize(("essential", "code"), [(True, 1), (False, 0)])
def test_only_a_broken_core_is_a_failure(
    essential: bool, code: int, igd: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [Finding("part", "broken", "it is so", "mend it", core=essential)]
    monkeypatch.setattr("igdefense.cli.doctor.diagnose", lambda _: iter(found))
    ended = igd("doctor")
    assert ended.code == code
    assert ended.out == "broken  part: it is so\n        -> mend it\n"


@pytest.mark.slow
def test_the_doctor_looks_at_everything(igd: Callable[..., Ended]) -> None:
    ended = igd("doctor")
    assert ended.code == 0, ended.err
    assert f"Python {sys.version.split()[0]}" in ended.out
    for topic in ("core", "device", "threads", "store", "torchvision", "bf16", "extra clip"):
        assert f" {topic}: " in ended.out
