"""Evaluate a defense: every attack of a suite, image by image, the worst case over all."""

import json
import logging
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from igdefense import __version__
from igdefense.attacks.suites import Column, cheapest_first
from igdefense.attacks.threat import Linf
from igdefense.data.data import Data
from igdefense.errors import DataError, OutputError, SettingError
from igdefense.expert.suite import columns_of
from igdefense.files import written_whole
from igdefense.models.check import check_classifier
from igdefense.models.fingerprint import identity
from igdefense.rankings.ranking import Ranking
from igdefense.running.local import Local
from igdefense.running.pool import Backend, Pool
from igdefense.verdicts.checks import SOME, inspect
from igdefense.verdicts.collect import collect, collect_base, seconds_of
from igdefense.verdicts.display import Display
from igdefense.verdicts.job import job_of
from igdefense.verdicts.judge import is_random
from igdefense.verdicts.remote_store import store_at
from igdefense.verdicts.run import Run
from igdefense.verdicts.store import image_ids
from igdefense.verdicts.units import Setting, Shard, Task, tasks
from igdefense.verdicts.verdict import selecting

log = logging.getLogger(__name__)
Mode = Literal["full", "cascade"]
SETTINGS, IMAGES = "run.json", "adversarial"


def evaluate(
    defense: nn.Module,
    data: Data,
    *,
    base: nn.Module | None = None,
    suite: str | Sequence[Column] = "paper",
    eps: float = 8 / 255,
    mode: Mode = "full",
    seed: int = 0,
    out: str | Path,
    store: str | Path | None = None,
    workers: int = 1,
    backend: Backend | None = None,
    batch_size: int = 32,
    draws: int = 10,
    budget: Mapping[str, int] | None = None,
    other_ranking: Ranking | str | None = None,
    name: str | None = None,
    recipe: Mapping[str, Any] | None = None,
    progress: bool | None = None,
) -> Run:
    """Attack the defense and its base, judge what is deployed, and call an image robust only if it
    survives everything.

    `full` runs every attack on every image; `cascade` runs each on the survivors of the cheaper
    ones, for IW-WC alone: an image leaves once it is wrong on the judging draw and on all draws
    that select its worst attack. Finished units of work are kept in `store` (a folder beside
    `out` by default, or an address such as s3://bucket/folder) and shared by all runs; the same
    call after an interruption goes on from there. They run in `workers` processes here, or on a
    `backend`.
    A random defense is judged on one draw, as in the paper, and then on `draws` fresh ones. In
    `full` mode the base is shown the attacks made on it, to be compared with the defense.
    `suite` is a name, or columns of one's own (then `budget` is theirs, and eps their threat's).
    `other_ranking` is for the suites `expert`: one more ranking of the same layer for the adversary
    to craft with, or the reason why there is none.
    `recipe` is kept with the results, so that `igd verify` can build the defense again.
    """
    if mode not in ("full", "cascade"):
        raise SettingError(f"mode = {mode!r}; expected 'full' or 'cascade'.")
    for what, value in (("batch_size", batch_size), ("workers", workers)):
        if value < 1:
            raise SettingError(f"{what} = {value}; at least 1 is needed.")
    if draws < 2:
        raise SettingError(f"draws = {draws}; at least 2 are needed, to select and to report.")
    folder = Path(out)
    columns, left_out = _columns(suite, eps, mode, budget, defense, other_ranking)
    _check(defense, base, data, columns)
    setting = Setting(
        defense,
        base,
        data,
        columns,
        seed,
        store_at(store or folder.parent / ".store"),
        draws=draws if is_random(defense) else 0,
        judge_base=mode == "full" and _is_rival(base, defense, columns),
    )
    suite_name = suite if isinstance(suite, str) else "own"
    settings = _settings(setting, suite_name, eps, mode, name, recipe) | {"left out": left_out}
    where, display = backend or Local(workers), Display(len(data), len(columns), progress)
    pool = where.pool(job_of(setting), display)
    _claim(folder, settings)
    if where.far:
        setting.store.sign()
    try:
        with display, pool:
            shards = list(_shards(setting, mode, pool, batch_size, display))
    except KeyboardInterrupt:
        log.warning(
            "Interrupted. Finished units are in %s; the same command resumes.", setting.store.root
        )
        raise
    run = _collect(setting, shards, settings)
    _keep_images(folder / IMAGES, setting, run)
    run.save(folder)
    return run


def _columns(
    suite: str | Sequence[Column],
    eps: float,
    mode: Mode,
    budget: Mapping[str, int] | None,
    defense: nn.Module,
    other_ranking: Ranking | str | None,
) -> tuple[tuple[Column, ...], dict[str, str]]:
    """The columns that say something about this defense, and why the others do not."""
    if isinstance(suite, str):
        columns = columns_of(suite, Linf(eps), budget, other_ranking)
    else:
        columns = tuple(suite)
        _check_own(columns, Linf(eps), budget)
    reasons = {column.name: column.why_not(defense) for column in columns}
    left_out = {name: reason for name, reason in reasons.items() if reason}
    columns = tuple(column for column in columns if column.name not in left_out)
    return cheapest_first(columns) if mode == "cascade" else columns, left_out


def _check_own(columns: Sequence[Column], threat: Linf, budget: Mapping[str, int] | None) -> None:
    names = [column.name for column in columns]
    if not columns or len(set(names)) < len(names):
        raise SettingError(f"A suite needs columns with names of their own, got {names}.")
    if budget:
        raise SettingError("A budget changes a suite with a name; put it into your own columns.")
    for column in columns:
        if column.attack.threat != threat:
            raise SettingError(
                f"{column.name} attacks within {column.attack.threat!r}, not {threat!r}."
            )


def _check(
    defense: nn.Module, base: nn.Module | None, data: Data, columns: Iterable[Column]
) -> None:
    for model in (defense, base):
        if model is None:
            continue
        classes = check_classifier(model, data.images[:2])
        if classes != len(data.class_names):
            raise DataError(
                f"The model has {classes} logits but the data {len(data.class_names)} classes."
            )
    transferred = [column.name for column in columns if column.target == "base"]
    if transferred and base is None:
        raise SettingError(
            f"This suite attacks the base model ({transferred[0]}), and none was given: "
            "pass base=..., or choose the suite 'autoattack'."
        )


def _is_rival(base: nn.Module | None, defense: nn.Module, columns: Iterable[Column]) -> bool:
    """Whether the base is another model than the defense, with attacks of its own."""
    attacked = any(column.target == "base" for column in columns)
    return base is not None and attacked and identity(base) != identity(defense)


def _settings(
    setting: Setting,
    suite_name: str,
    eps: float,
    mode: Mode,
    name: str | None,
    recipe: Mapping[str, Any] | None,
) -> dict[str, Any]:
    settings = {
        "defense name": name or type(setting.defense).__name__,
        "defense": identity(setting.defense),
        "base": None if setting.base is None else identity(setting.base),
        "data": setting.data.fingerprint,
        "n": len(setting.data),
        "suite": suite_name,
        "eps": eps,
        "mode": mode,
        "seed": setting.seed,
        "draws": setting.draws,
        "columns": {
            column.name: {
                "attack": repr(column.attack),
                "sees": column.target,
                "EoT draws": column.samples,
                "group": column.group,
                "surrogate": column.surrogate and repr(column.surrogate),
                "starts from": column.start and column.start.name,
                "unit": setting.unit(column),
            }
            for column in setting.columns
        },
        "gradients": {column.name: setting.gradients(column) for column in setting.columns},
        "versions": {
            "igdefense": __version__,
            "torch": torch.__version__,
            "pyautoattack": version("pyautoattack"),
            "python": platform.python_version(),
        },
        "recipe": dict(recipe) if recipe else None,
    }
    plain: dict[str, Any] = json.loads(json.dumps(settings))
    return plain


def _claim(folder: Path, settings: dict[str, Any]) -> None:
    """Make the folder this run's own, or refuse one that is another's."""
    path = folder / SETTINGS
    compared = ("defense", "base", "data", "suite", "eps", "mode", "seed", "columns")
    if path.exists():
        try:
            theirs = json.loads(path.read_text())
        except ValueError as error:
            raise OutputError(f"{path} is damaged ({error}); choose another folder.") from error
        changed = [key for key in compared if theirs.get(key) != settings[key]]
        if changed:
            raise OutputError(
                f"{folder} holds a run with another {', '.join(changed)}; choose another folder."
            )
    elif folder.exists() and any(folder.iterdir()):
        raise OutputError(f"{folder} is not empty and holds no run; choose another folder.")
    with written_whole(path) as part:
        part.write_text(json.dumps(settings, indent=1) + "\n")


def _shards(
    setting: Setting, mode: Mode, pool: Pool[Task, Shard], batch_size: int, display: Display
) -> Iterator[Shard]:
    """Clean images first; then every column on all of them, or on those still standing."""
    labels = setting.data.labels
    everyone = range(len(setting.data))
    standing, margin = set[int](), dict[int, float]()
    for shard in pool.results(tasks(everyone, [None], batch_size, pool.workers)):
        standing |= _standing(shard, labels)
        margin |= dict(zip(shard.task.positions, shard.margins, strict=True))
        yield shard
    names = [column.name for column in setting.columns]
    rounds = [[name] for name in names] if mode == "cascade" else [names]
    for chosen in rounds:
        some = sorted(standing if mode == "cascade" else everyone, key=margin.__getitem__)
        display.skip((len(everyone) - len(some)) * len(chosen))
        for shard in pool.results(tasks(some, chosen, batch_size, pool.workers)):
            positions, right = shard.task.positions, _right(shard, 0, labels)
            display.report(str(shard.task.column), len(positions), len(positions) - len(right))
            standing -= set(positions) - _standing(shard, labels)
            yield shard


def _standing(shard: Shard, labels: Tensor) -> set[int]:
    """Right on the judging draw or on one that selects the worst attack.

    An image that fell on the judging draw alone meets the next attacks too, since one of them may
    be worse for it on average. The draws that report have no say in it.
    """
    asked = 1 + selecting(len(shard.predictions) - 1)
    return set[int]().union(*(_right(shard, draw, labels) for draw in range(asked)))


def _right(shard: Shard, draw: int, labels: Tensor) -> set[int]:
    found = zip(shard.task.positions, shard.predictions[draw], strict=True)
    return {position for position, label in found if label == int(labels[position])}


def _collect(setting: Setting, shards: list[Shard], settings: dict[str, Any]) -> Run:
    labels, names = setting.data.labels, [column.name for column in setting.columns]
    found = collect(shards, names, labels)
    base = collect_base(shards, names, labels) if setting.judge_base else None
    ids = image_ids(setting.data.images[:SOME], labels[:SOME])
    footnotes, checks = inspect(setting, found.attacked, found.clean, ids)
    seconds = seconds_of(shards, names)
    return Run(found.clean, found.attacked, settings, seconds, footnotes, checks, base)


def _keep_images(folder: Path, setting: Setting, run: Run) -> None:
    """Beside the results, the adversarial images of each column, so that a run can be verified."""
    ids = [
        name for images, labels in setting.data.batches(500) for name in image_ids(images, labels)
    ]
    for column in setting.columns:
        positions = run.verdicts[column.name].tested.nonzero().flatten()
        found = setting.store.get(setting.unit(column), [ids[i] for i in positions.tolist()])
        shape = setting.data.images.shape[1:]
        x = torch.stack([found[ids[i]] for i in positions.tolist()]) if len(positions) else None
        tensors = {"positions": positions, "x": torch.zeros(0, *shape) if x is None else x}
        with written_whole(folder / f"{column.name}.safetensors") as part:
            save_file({k: v.contiguous() for k, v in tensors.items()}, part)
