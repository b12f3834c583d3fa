"""Run tasks on a Ray cluster, of one machine or many."""

import importlib
import math
import os
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, ClassVar, Generic

from igdefense.errors import SettingError
from igdefense.running.order import Order, Unit
from igdefense.running.parcel import Packer, Parcel
from igdefense.running.pool import Job, Logged, Result, Task, Watch, WorkerError
from igdefense.running.staff import LIVES, TICK, Actor, Staff, first_line
from igdefense.running.worker import Record


@dataclass(eq=False)
class Ray:
    """A Ray cluster at an address, `auto` for the one of this machine, `local` for a new one here.

    Workers start with the first job, as many as the cluster has room for or `workers` at most, and
    stay for the next one until the `with` block ends; an error or an interruption frees the cluster
    at once. `gpus_per_worker` is 1 where the cluster has GPUs.
    """

    address: str = "auto"
    workers: int | None = None
    cpus_per_worker: float = 1.0
    gpus_per_worker: float | None = None
    far: ClassVar[bool] = True
    _link: "_Link | None" = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise SettingError(f"workers = {self.workers}; at least 1 is needed.")
        if not self.cpus_per_worker > 0:
            raise SettingError(f"cpus_per_worker = {self.cpus_per_worker:g}; expected more than 0.")
        if self.gpus_per_worker is not None and self.gpus_per_worker < 0:
            raise SettingError(f"gpus_per_worker = {self.gpus_per_worker:g}; expected 0 or more.")

    def size(self) -> int:
        """How many workers there is room for; asking connects."""
        return max(1, self._linked().staff.room)

    def __enter__(self) -> "Ray":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def pool(
        self, job: Job[Any, Task, Result], watch: Watch | None = None
    ) -> "RayPool[Task, Result]":
        """Workers for this job; the first call connects."""
        return RayPool(self, self._linked(), job, watch or Logged())

    def _linked(self) -> "_Link":
        if self._link is None:
            self._link = _connected(self)
        return self._link

    def close(self) -> None:
        """End the workers and leave the cluster."""
        if self._link is not None:
            self._link.staff.dismiss()
            if self._link.own:
                self._link.ray.shutdown()
        self._link = None


@dataclass(frozen=True, eq=False)
class _Link:
    """A connection: the package, who works there, what was sent, and whether we opened it."""

    ray: Any
    staff: Staff
    packer: Packer
    own: bool


class RayPool(Generic[Task, Result]):
    """The tasks of one job on the cluster's workers, in rounds."""

    def __init__(
        self, cluster: Ray, link: _Link, job: Job[Any, Task, Result], watch: Watch
    ) -> None:
        self.cluster, self.link, self.job, self.watch = cluster, link, job, watch
        self._parcel: Parcel | None = None

    @property
    def workers(self) -> int:
        return max(1, self.link.staff.room)

    def __enter__(self) -> "RayPool[Task, Result]":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.cluster.close()

    def results(self, tasks: Iterable[Task]) -> Iterator[Result]:
        """The results of these tasks, each as soon as it is ready."""
        parcel = self._parcel or self.link.packer.pack(self.job.function, self.job.shared)
        self._parcel = parcel
        order: Order[Task, Result] = Order(self.job, tasks)
        staff, looked = self.link.staff, -math.inf
        while not order.finished:
            if time.monotonic() - looked > TICK:
                staff.fill(self.watch)
                looked = time.monotonic()
            while staff.idle and (unit := order.next(len(staff.idle))):
                staff.give(parcel, unit)
            for end in staff.ended():
                if end.unit is None:
                    staff.welcome(end.actor, end.found)
                    continue
                if isinstance(end.found, Record):
                    staff.idle.append(end.actor)
                if end.unit in order:  # else nobody waits for it any more
                    yield from self._taken(order, end.actor, end.unit, end.found)

    def _taken(
        self, order: Order[Task, Result], actor: Actor, unit: Unit[Task, Result], found: Any
    ) -> Iterator[Result]:
        what = self.job.name(unit.task)
        if not isinstance(found, Record):
            order.back(unit)
            if unit.deaths >= LIVES:
                raise WorkerError(
                    f"{what} has ended {unit.deaths} workers (killed, or out of memory?); try a "
                    "smaller --batch-size. What was finished is kept: the same command goes on."
                )
            reason = first_line(found)
            self.watch.say(f"{actor.name} died during {what} ({reason}); another takes over.")
            return
        for note in found.notes:
            self.watch.say(f"{actor.name}: {note}")
        if found.error is not None:
            raise found.error
        self.watch.worked(actor.name, self.job.images(unit.task), found.seconds)
        yield from order.done(unit, found.result, found.seconds)


def _connected(wanted: Ray) -> _Link:
    try:
        ray = importlib.import_module("ray")
    except ModuleNotFoundError as error:
        raise SettingError("--backend ray needs Ray: pip install 'igdefense[ray]'.") from error
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # as Ray is going to have it
    own = not ray.is_initialized()
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if wanted.address == "local":
        options["include_dashboard"] = False
    try:
        if own:
            _knock(wanted.address)
            ray.init(address=wanted.address, **options)
    except (OSError, RuntimeError, ValueError) as error:
        raise SettingError(
            f"No Ray cluster answers at {wanted.address!r} ({first_line(error)}): start one by "
            "`ray start --head`, or use --address local for this machine alone."
        ) from error
    _silence(ray)
    staff = Staff(ray, wanted.workers, wanted.cpus_per_worker, wanted.gpus_per_worker)
    if staff.room < 1:
        has = ray.cluster_resources()
        if own:
            ray.shutdown()
        raise SettingError(
            f"No machine of the cluster has the {staff.cpus:g} CPUs and {staff.gpus:g} GPUs of a "
            f"worker; all together have {has.get('CPU', 0):g} and {has.get('GPU', 0):g}. Ask for "
            "less by --cpus-per-worker and --gpus-per-worker."
        )
    return _Link(ray, staff, Packer(ray.put), own)


def _knock(address: str) -> None:
    """An error at once where nobody listens; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _silence(ray: Any) -> None:
    """Ray prints its own accounts of what it lost to standard output, where results go."""
    if hasattr(ray._private.worker, "_worker_logs_enabled"):
        ray._private.worker._worker_logs_enabled = False
