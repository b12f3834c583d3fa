"""Does the attack converge? Robust accuracy against its steps, restarts and EoT draws."""

from collections.abc import Sequence
from pathlib import Path

from torch import nn

from igdefense.attacks.apgd import APGD
from igdefense.attacks.suites import Column
from igdefense.attacks.threat import Linf
from igdefense.data.data import Data
from igdefense.errors import SettingError
from igdefense.running.local import Local
from igdefense.running.pool import Backend
from igdefense.verdicts.collect import collect
from igdefense.verdicts.curve import Curve
from igdefense.verdicts.display import Display
from igdefense.verdicts.job import job_of
from igdefense.verdicts.judge import is_random
from igdefense.verdicts.remote_store import store_at
from igdefense.verdicts.units import Setting, tasks

Point = tuple[int, int, int]  # steps, restarts, EoT draws


def curves(
    defense: nn.Module,
    data: Data,
    *,
    store: str | Path,
    eps: float = 8 / 255,
    steps: Sequence[int] = (5, 10, 20, 40),
    restarts: Sequence[int] = (1, 2, 4),
    eot: Sequence[int] = (1, 2, 4, 8),
    seed: int = 0,
    draws: int = 10,
    workers: int = 1,
    backend: Backend | None = None,
    batch_size: int = 32,
    progress: bool | None = None,
) -> list[Curve]:
    """APGD-CE on the defense itself, one budget growing while the others stay at their second
    smallest; a deterministic defense has no curve of EoT draws.

    Finished units are kept in `store`, as those of `evaluate`: the same call resumes.
    """
    for name, values in (("steps", steps), ("restarts", restarts), ("eot", eot)):
        if len(values) < 2 or sorted(set(values)) != list(values) or values[0] < 1:
            raise SettingError(f"{name} = {tuple(values)}; expected two or more growing numbers.")
    random = is_random(defense)
    many, usual = steps[1], eot[1] if random else 1
    lines: dict[str, list[Point]] = {
        "steps": [(value, 1, usual) for value in steps],
        "restarts": [(many, value, usual) for value in restarts],
    }
    if random:
        lines["EoT draws"] = [(many, 1, value) for value in eot]
    points = list(dict.fromkeys(point for line in lines.values() for point in line))
    columns = tuple(_column(point, eps) for point in points)
    setting = Setting(
        defense, None, data, columns, seed, store_at(store), draws=draws if random else 0
    )
    names = [column.name for column in columns]
    shards = []
    with Display(len(data), len(columns), progress) as display:
        where = backend or Local(workers)
        if where.far:
            setting.store.sign()
        with where.pool(job_of(setting), display) as pool:
            work = tasks(range(len(data)), [None, *names], batch_size, pool.workers)
            for shard in pool.results(work):
                shards.append(shard)
                if shard.task.column is not None:
                    display.report(shard.task.column, len(shard.task.positions), 0)
    found = collect(shards, names, data.labels).attacked
    place = {"steps": 0, "restarts": 1, "EoT draws": 2}
    return [
        Curve(
            budget,
            _described(line[0], budget),
            tuple(point[place[budget]] for point in line),
            tuple(found[_column(point, eps).name] for point in line),
        )
        for budget, line in lines.items()
    ]


def _column(point: Point, eps: float) -> Column:
    steps, restarts, eot = point
    attack = APGD(threat=Linf(eps), loss="ce", steps=steps, restarts=restarts, best="strict")
    return Column(name=f"steps={steps} restarts={restarts} eot={eot}", attack=attack, samples=eot)


def _described(point: Point, budget: str) -> str:
    names = ("steps", "restarts", "EoT draws")
    fixed = [f"{value} {name}" for name, value in zip(names, point, strict=True) if name != budget]
    return f"APGD-CE on the defense, {', '.join(fixed)}"
