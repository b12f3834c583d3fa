"""The package's extras, as its metadata lists them: which can be imported, and why not."""

import re
from collections import defaultdict
from collections.abc import Iterable
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from igdefense.doctor.finding import Finding
from igdefense.doctor.trial import Trial, tried

PACKAGE = "igdefense"
MISFIT = (
    "torchvision does not fit the installed torch: install the two as a pair from the same index, "
    "or remove torchvision where nothing needs it"
)


def requirements(distribution: metadata.Distribution) -> dict[str, list[Requirement]]:
    """What each extra asks for; the core's own requirements are under ''."""
    parsed = [Requirement(text) for text in distribution.requires or []]
    names = distribution.metadata.get_all("Provides-Extra") or []
    wanted = {"": [r for r in parsed if _applies(r, "")]}
    for name in names:
        wanted[name] = _of_extra(parsed, name)
    return wanted


def core_findings(wanted: Iterable[Requirement]) -> list[Finding]:
    """One for each requirement of the core that is not met, or one that says all are."""
    unmet = [(r, why) for r in wanted if (why := _unmet(r))]
    if not unmet:
        return []
    todo = "pip install --upgrade " + " ".join(f"'{_bare(r)}'" for r, _ in unmet)
    return [Finding("requirements", "broken", "; ".join(why for _, why in unmet), todo, core=True)]


def extra_finding(name: str, wanted: list[Requirement]) -> Finding:
    """Whether everything an extra asks for is there and can be imported."""
    topic, install = f"extra {name}", f"pip install '{PACKAGE}[{name}]'"
    missing = [why for r in wanted if (why := _unmet(r))]
    if missing:
        return Finding(topic, "absent", "; ".join(missing), install)
    owned = _owned()
    modules = [m for r in wanted for m in _modules(canonicalize_name(r.name), owned)]
    trial = tried(_imports(modules))
    if trial.worked:
        versions = ", ".join(f"{r.name} {metadata.version(r.name)}" for r in wanted)
        return Finding(topic, "ok", versions)
    return Finding(topic, "broken", *_why(trial, modules, install))


def _why(trial: Trial, modules: list[str], install: str) -> tuple[str, str]:
    begun = trial.out.split()
    module = begun[-1] if begun else modules[0]
    reason = str(trial.reason)
    todo = f"reinstall {module}: {install} --force-reinstall --no-deps"
    return f"import {module}: {reason}", MISFIT if "torchvision" in reason else todo


def _imports(modules: list[str]) -> str:
    """Code that says which module it is about to import, so that a crash has a name."""
    return "\n".join(f"print({m!r}, flush=True)\nimport {m}" for m in modules)


def _of_extra(
    parsed: list[Requirement], extra: str, seen: tuple[str, ...] = ()
) -> list[Requirement]:
    """An extra may ask for other extras of this package."""
    found: list[Requirement] = []
    for requirement in parsed:
        if not _applies(requirement, extra) or _applies(requirement, ""):
            continue
        if canonicalize_name(requirement.name) != PACKAGE:
            found.append(requirement)
            continue
        for other in sorted(requirement.extras - {extra, *seen}):
            found += _of_extra(parsed, other, (*seen, extra))
    return found


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _unmet(requirement: Requirement) -> str | None:
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return f"{requirement.name} is not installed"
    if requirement.specifier.contains(version, prereleases=True):
        return None
    return f"{requirement.name} {version} does not meet {requirement.specifier}"


def _bare(requirement: Requirement) -> str:
    return f"{requirement.name}{requirement.specifier}"


def _owned() -> dict[str, list[str]]:
    """The top-level modules of each installed distribution."""
    owned = defaultdict(list)
    for module, owners in metadata.packages_distributions().items():
        for owner in owners:
            owned[str(canonicalize_name(owner))].append(module)
    return owned


def _modules(distribution: str, owned: dict[str, list[str]]) -> list[str]:
    """What a distribution is imported as; its namesake alone, where there is one."""
    own = owned.get(distribution, [])
    same = [module for module in own if canonicalize_name(module) == distribution]
    return same or sorted(module for module in own if re.fullmatch(r"[A-Za-z]\w*", module))
