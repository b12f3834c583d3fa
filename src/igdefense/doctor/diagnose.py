"""`diagnose`: everything that is looked at, one finding after the other."""

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from igdefense.doctor import machine
from igdefense.doctor.core import core, versions
from igdefense.doctor.extras import PACKAGE, core_findings, extra_finding, requirements
from igdefense.doctor.finding import Finding


def diagnose(store: Path) -> Iterator[Finding]:
    """The findings as they are made; the slow ones, each in its own process, come last."""
    yield versions()
    yield core()
    yield machine.device()
    yield machine.threads()
    yield machine.disk(store)
    yield machine.torchvision()
    yield machine.bf16()
    try:
        wanted = requirements(metadata.distribution(PACKAGE))
    except metadata.PackageNotFoundError:
        yield Finding("extras", "absent", f"{PACKAGE} runs from its source", "pip install .")
        return
    yield from core_findings(wanted.pop(""))
    for name, needs in wanted.items():
        yield extra_finding(name, needs)
