"""The workers on a Ray cluster: Ray places them and carries units and records, we only ask."""

import math
import os
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from igdefense.errors import SettingError
from igdefense.running.order import Unit
from igdefense.running.parcel import Parcel
from igdefense.running.pool import Watch, WorkerError
from igdefense.running.worker import Hello, Place, Record, Worker, versions

LIVES = 4  # workers that may fail to start, or that a unit may end
TICK = 1.0  # seconds between looks at the cluster


class LostNodeError(Exception):
    """Why a worker is gone."""


class RayWorker(Worker):
    """The worker as an actor. One that dies is not revived: its unit may go elsewhere at once."""

    def __init__(self, place: Place) -> None:
        import ray  # noqa: PLC0415  (an extra)

        super().__init__(place, ray.get)

    def hello(self) -> Hello:
        import ray  # noqa: PLC0415

        node = ray.get_runtime_context().get_node_id()
        address = str(ray.util.get_node_ip_address())  # type: ignore[no-untyped-call]
        return Hello(node, address, os.getpid(), versions())


@dataclass(eq=False)
class Actor:
    """A worker as the driver knows it."""

    handle: Any
    number: int
    hello: Hello | None = None

    @property
    def name(self) -> str:
        if self.hello is None:
            return f"worker {self.number}"
        return f"worker {self.number} on {self.hello.host} ({self.hello.node[:6]})"


@dataclass(frozen=True)
class Ended:
    """What came back from a worker: a record of the unit it had, its greeting, or its death."""

    actor: Actor
    unit: Unit[Any, Any] | None
    found: Record | Hello | Exception


class Staff:
    """So many workers with so many CPUs and GPUs each; None is as many as there is room for."""

    def __init__(self, ray: Any, workers: int | None, cpus: float, gpus: float | None) -> None:
        self.ray, self.workers, self.cpus = ray, workers, cpus
        has_gpus = ray.cluster_resources().get("GPU", 0) >= 1
        self.gpus = float(has_gpus) if gpus is None else gpus
        self.idle: list[Actor] = []
        self._busy: dict[Any, tuple[Actor, Unit[Any, Any] | None]] = {}  # by future
        self._lost = {node["NodeID"] for node in ray.nodes() if not node["Alive"]}
        self._started = self._stillborn = 0

    @property
    def room(self) -> int:
        """How many workers the cluster has room for, at most as many as were asked for."""
        alive = (node["Resources"] for node in self.ray.nodes() if node["Alive"])
        places = sum(_fits(resources, self.cpus, self.gpus) for resources in alive)
        return places if self.workers is None else min(places, self.workers)

    def fill(self, watch: Watch) -> None:
        """Ask for the workers that are missing; Ray places them when there is room."""
        for node in self.ray.nodes():
            if not node["Alive"] and node["NodeID"] not in self._lost:
                self._lost.add(node["NodeID"])
                watch.say(
                    f"Node {node['NodeManagerAddress']} ({node['NodeID'][:6]}) is lost; what it "
                    f"had not finished goes to the {self._alive} workers that are left."
                )
        place = self._place()
        for _ in range(self.room - self._alive):
            self._started += 1
            asked = self.ray.remote(
                num_cpus=self.cpus, num_gpus=self.gpus, scheduling_strategy="SPREAD"
            )
            actor = Actor(asked(RayWorker).remote(place), self._started)
            self._busy[actor.handle.hello.remote()] = (actor, None)

    def give(self, parcel: Parcel, unit: Unit[Any, Any]) -> None:
        """Hand a unit to an idle worker."""
        actor = self.idle.pop(0)
        self._busy[actor.handle.perform.remote(parcel, unit.task)] = (actor, unit)

    def ended(self) -> list[Ended]:
        """What came back within a second."""
        if not self._busy:
            return []
        futures, _ = self.ray.wait(list(self._busy), timeout=TICK)
        return [self._ended(future) for future in futures]

    def welcome(self, actor: Actor, found: object) -> None:
        """A worker has started, or has failed to."""
        if isinstance(found, Hello):
            _check(found)
            actor.hello = found
            self.idle.append(actor)
            return
        self._stillborn += 1
        if self._stillborn >= LIVES:
            raise WorkerError(f"Workers do not start on this cluster: {first_line(found)}.")

    def dismiss(self) -> None:
        """End all workers; what they use is free at once."""
        for actor in [*self.idle, *(actor for actor, _ in self._busy.values())]:
            self._end(actor)
        self.idle, self._busy = [], {}

    @property
    def _alive(self) -> int:
        known = [*self.idle, *(actor for actor, _ in self._busy.values())]
        return sum(actor.hello is None or actor.hello.node not in self._lost for actor in known)

    def _ended(self, future: Any) -> Ended:
        actor, unit = self._busy.pop(future)
        errors = self.ray.exceptions
        try:
            found = self.ray.get(future)
        except errors.RayTaskError:
            raise  # a mistake in the work itself: it would happen anywhere
        except errors.RayError as error:
            self._end(actor)  # Ray may hope that it comes back
            found = error if self._answers(actor) else LostNodeError("its node does not answer")
        return Ended(actor, unit, found)

    def _answers(self, actor: Actor) -> bool:
        """Whether the worker's node is there: the cluster itself takes a while to notice."""
        for node in self.ray.nodes():
            if actor.hello is not None and node["NodeID"] == actor.hello.node:
                try:
                    address = (node["NodeManagerAddress"], node["NodeManagerPort"])
                    socket.create_connection(address, timeout=2).close()
                except OSError:
                    return False
        return True

    def _end(self, actor: Actor) -> None:
        with suppress(Exception):  # one that is gone already
            self.ray.kill(actor.handle)

    def _place(self) -> Place:
        here = os.getcwd()
        paths = (*(path for path in sys.path if path), here)
        return Place(here, paths, max(1, int(self.cpus)), self.gpus > 0)


def first_line(error: object) -> str:
    """The beginning of an error's text, or why Ray says that an actor is dead."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = next((line for line in lines if line.startswith("The actor is dead because")), None)
    return (cause or lines[0]).split(". ")[0].rstrip(".") if lines else type(error).__name__


def _fits(resources: dict[str, float], cpus: float, gpus: float) -> int:
    by_cpu = resources.get("CPU", 0) / cpus
    return math.floor(min(by_cpu, resources.get("GPU", 0) / gpus) if gpus else by_cpu)


def _check(hello: Hello) -> None:
    """Refuse a machine where the same unit might end differently."""
    ours = versions()
    differ = [name for name in ours if hello.versions[name] != ours[name]]
    if differ:
        theirs = ", ".join(f"{name} {hello.versions[name]}" for name in differ)
        here = ", ".join(f"{name} {ours[name]}" for name in differ)
        raise SettingError(f"{hello.host} has {theirs}, and here it is {here}: install the same.")
