"""Search the family on one split, report the best on another."""

import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from igdefense.data.data import Data
from igdefense.data.overlap import check_disjoint
from igdefense.errors import OutputError, SettingError
from igdefense.expert.suite import EXPERT
from igdefense.family.member import Member
from igdefense.family.outcome import Outcome
from igdefense.family.probed import Probed
from igdefense.family.trial import Trial, best_first, rungs
from igdefense.files import written_whole
from igdefense.models.fingerprint import hash_text, identity
from igdefense.verdicts.diff import diff_runs
from igdefense.verdicts.difference import difference
from igdefense.verdicts.evaluate import Mode, evaluate
from igdefense.verdicts.run import RESULTS, Run

log = logging.getLogger(__name__)
SETTINGS, RANKINGS, BASE = "search.json", "rankings", "base"
ROUNDS = "rounds.json"  # the finished ones, to look at before the end
FAMILY = "family"  # what a recipe calls a defense that a member makes


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One of the two splits: its images, how it is attacked, and its name on the command line."""

    data: Data
    suite: str
    budget: Mapping[str, int]
    spec: str | None = None

    def to_json(self) -> dict[str, Any]:
        told = {"data": self.spec, "fingerprint": self.data.fingerprint, "n": len(self.data)}
        return told | {"suite": self.suite, "budget": dict(self.budget)}


def search(
    space: Sequence[Member],
    probed: Probed,
    *,
    validation: Data,
    test: Data,
    out: str | Path,
    suite: str = "expert-quick",
    budget: Mapping[str, int] | None = None,
    test_suite: str = "expert",
    test_budget: Mapping[str, int] | None = None,
    eps: float = 8 / 255,
    mode: Mode = "cascade",
    seed: int = 0,
    first: int | None = None,
    store: str | Path | None = None,
    recipe: Mapping[str, Any] | None = None,
    **running: Any,
) -> Outcome:
    """Choose among the settings on the validation images, report the choice on the test images.

    Successive halving: all settings on the `first` images (a quarter), the better half on twice as
    many, and so on to the whole split. A setting is as good as its worst case exceeds the base
    model's on the same images; of equals the simpler is taken. The test images are attacked once,
    for the chosen setting and the base. Everything is kept in `out`, the attacks in `store`: the
    same call after an interruption goes on. `running` is what `evaluate` takes besides: workers,
    batch_size, draws, progress.
    """
    told, folder = dict(recipe or {}), Path(out)
    if not space:
        raise SettingError("There is nothing to search: the space holds no settings.")
    for name in (suite, test_suite):
        if name not in EXPERT:
            raise SettingError(f"A search uses the suites {' and '.join(EXPERT)}, not {name!r}.")
    stages = {
        "validation": Stage(
            data=validation, suite=suite, budget=budget or {}, spec=told.get("validation")
        ),
        "test": Stage(data=test, suite=test_suite, budget=test_budget or {}, spec=told.get("test")),
    }
    sizes = rungs(len(validation), first)
    check_disjoint(validation, test, ("The validation", "the test data"))
    check_disjoint(probed.data, test, ("The probe", "the test data"))
    settings: dict[str, Any] = {
        "model": identity(probed.model),
        "probe": probed.data.fingerprint,
        "encoder": probed.encoder,
        **{name: stage.to_json() for name, stage in stages.items()},
        **{"eps": eps, "mode": mode, "seed": seed, "rounds": sizes},
        "space": [member.to_json() for member in space],
    }
    if (folder / SETTINGS).exists():
        _claim(folder, settings)
        probed.folder = folder / RANKINGS
    # All are built before anything is written: a setting that does not fit the model ends here.
    defenses = {None: probed.model} | {member: member.build(probed, seed) for member in space}
    _claim(folder, settings)
    probed.keep_in(folder / RANKINGS)
    common = {"eps": eps, "mode": mode, "seed": seed, "store": store or folder / ".store"}
    bench = _Bench(probed, defenses, folder, common | running, told)

    rounds: list[list[Trial]] = []
    left = list(space)
    for size in sizes:
        part = Stage(
            data=validation[:size], suite=suite, budget=budget or {}, spec=told.get("validation")
        )
        base = bench.run(None, part, f"validation/{size}")
        trials = [_trial(m, bench.run(m, part, f"validation/{size}"), base, seed) for m in left]
        rounds.append(trials)
        _write(folder / ROUNDS, [[trial.to_json() for trial in done] for done in rounds])
        left = [trial.member for trial in best_first(trials)[: max(1, (len(trials) + 1) // 2)]]
    chosen = best_first(rounds[-1])[0].member
    log.info("chosen: %s; now the test images", chosen.name)
    base, best = (bench.run(m, stages["test"], "test") for m in (None, chosen))
    outcome = Outcome(rounds, chosen, diff_runs(best, base, seed), settings)
    outcome.save(folder)
    return outcome


def _trial(member: Member, run: Run, base: Run, seed: int) -> Trial:
    worst = difference("IW-WC", run.worst_case.robust, base.worst_case.robust, seed)
    trial = Trial(member, run.clean.share.value, worst)
    log.info("%s: %+.1f points on %d images", member.name, 100 * worst.value, worst.images)
    return trial


@dataclass(frozen=True, eq=False)
class _Bench:
    """Evaluates members; finished runs are read again."""

    probed: Probed
    defenses: Mapping[Member | None, nn.Module]
    folder: Path
    options: dict[str, Any]
    recipe: dict[str, Any]

    def run(self, member: Member | None, stage: Stage, place: str) -> Run:
        """The run of a member, or of the base model, in a folder of its own."""
        defense = self.defenses[member]
        out = self.folder / place / (BASE if member is None else slug(member))
        if (out / RESULTS).exists():
            run = Run.load(out)
            if _same(run, defense, stage):
                return run
        return evaluate(
            defense,
            stage.data,
            base=self.probed.model,
            suite=stage.suite,
            budget=stage.budget,
            out=out,
            name="base" if member is None else member.name,
            other_ranking=self._other(member),
            recipe=self._recipe(member, stage, out) if self.recipe else None,
            **self.options,
        )

    def _other(self, member: Member | None) -> Any:
        if member is None:
            return None
        layer = self.probed.layer(member.layer.split("+")[-1])
        return self.probed.other(member.other_method(), layer)

    def _recipe(self, member: Member | None, stage: Stage, out: Path) -> dict[str, Any]:
        told: dict[str, Any] = {"data": stage.spec, "n": len(stage.data), "defense": "none"}
        if member is not None:
            rankings = os.path.relpath(self.folder / RANKINGS, out)
            told |= {"defense": FAMILY, "member": member.to_json(), "rankings": rankings}
        return self.recipe | told


def slug(member: Member) -> str:
    """A folder's name: readable, and different for different members."""
    words = re.sub(r"[^a-z0-9.]+", "-", member.name.lower()).strip("-")
    return f"{words}-{hash_text(member.to_json())[:6]}"


def _same(run: Run, defense: nn.Module, stage: Stage) -> bool:
    wanted = (identity(defense), stage.data.fingerprint, stage.suite)
    return (run.settings["defense"], run.settings["data"], run.settings["suite"]) == wanted


def _claim(folder: Path, settings: dict[str, Any]) -> None:
    """Make the folder this search's own, or refuse one that is another's."""
    path, plain = folder / SETTINGS, json.loads(json.dumps(settings))
    if path.exists():
        try:
            theirs = json.loads(path.read_text())
        except ValueError as error:
            raise OutputError(f"{path} is damaged ({error}); choose another folder.") from error
        changed = [key for key in plain if theirs.get(key) != plain[key]]
        if changed:
            raise OutputError(
                f"{folder} holds a search with another {', '.join(changed)}; choose another folder."
            )
    elif folder.exists() and any(folder.iterdir()):
        raise OutputError(f"{folder} is not empty and holds no search; choose another folder.")
    _write(path, plain)


def _write(path: Path, record: Any) -> None:
    with written_whole(path) as part:
        part.write_text(json.dumps(record, indent=1) + "\n")
