"""The units of an evaluation as a job for any backend."""

from igdefense.attacks.price import price
from igdefense.attacks.suites import Column
from igdefense.running.pool import Job
from igdefense.verdicts.judge import is_random
from igdefense.verdicts.units import Setting, Shard, Task, run_task


def job_of(setting: Setting) -> Job[Setting, Task, Shard]:
    """What a backend needs to know to run the tasks of a setting."""
    prices = {None: 1.0} | {column.name: _price(setting, column) for column in setting.columns}
    return Job(
        run_task,
        setting,
        cost=lambda task: prices[task.column] * len(task.positions),
        kind=lambda task: task.column,
        cut=cut,
        images=lambda task: len(task.positions),
        name=lambda task: f"{task.column or 'clean'} on {len(task.positions)} images",
    )


def _price(setting: Setting, column: Column) -> float:
    target = setting.target(column)
    passes = 1.0 if target is setting.base else 2.0  # the defense guesses before it predicts
    return price(column, random=is_random(target), inference=passes)


def cut(task: Task, parts: int) -> list[Task]:
    """The task in so many parts, none of them empty."""
    count = min(parts, len(task.positions))
    return [Task(task.positions[i::count], task.column) for i in range(count)]
