"""A job as it travels to workers: packed once, and what several jobs share only once for all."""

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from torch import Tensor, nn

Put = Callable[[bytes], Any]  # into the cluster's object store; gives a reference
Get = Callable[[Any], bytes]

KEPT = 2  # jobs that a worker remembers


@dataclass(frozen=True)
class Parcel:
    """References to the bytes of a job and of its parts, by their names."""

    name: str
    content: tuple[Any, ...]  # inside a tuple, so that Ray passes the reference on as it is
    parts: dict[str, tuple[Any, ...]]


@dataclass
class Packer:
    """On the driver: remembers which parts are with the cluster already."""

    put: Put
    _known: dict[int, tuple[object, str, tuple[Any, ...]]] = field(default_factory=dict)

    def pack(self, function: Callable[..., Any], shared: object) -> Parcel:
        """The job as bytes, its `parts` left out and sent on their own the first time."""
        used: dict[str, tuple[Any, ...]] = {}
        mine = {id(part) for part in getattr(shared, "parts", ()) if part is not None}

        def name_of(thing: object) -> str | None:
            if id(thing) not in mine:
                return None
            if id(thing) not in self._known:
                content = _dumped(thing, lambda _: None)
                self._known[id(thing)] = (thing, uuid4().hex, (self.put(content),))
            _, name, reference = self._known[id(thing)]
            used[name] = reference
            return name

        content = _dumped((function, shared), name_of)
        return Parcel(uuid4().hex, (self.put(content),), used)


@dataclass
class Unpacker:
    """On a worker: each job and each part is loaded once."""

    get: Get
    _jobs: dict[str, tuple[Callable[..., Any], Any]] = field(default_factory=dict)
    _parts: dict[str, dict[str, Any]] = field(default_factory=dict)  # by job

    def __contains__(self, parcel: Parcel) -> bool:
        return parcel.name in self._jobs

    def unpack(self, parcel: Parcel) -> tuple[Callable[..., Any], Any]:
        """The job's function and what it shares."""
        if parcel.name not in self._jobs:
            here = {name: part for parts in self._parts.values() for name, part in parts.items()}
            mine = {
                name: here[name] if name in here else pickle.loads(self.get(reference))
                for name, (reference,) in parcel.parts.items()
            }
            self._parts[parcel.name] = mine
            self._jobs[parcel.name] = _loaded(self.get(parcel.content[0]), mine.__getitem__)
            for old in list(self._jobs)[:-KEPT]:
                del self._jobs[old], self._parts[old]
        return self._jobs[parcel.name]


def _dumped(thing: object, name_of: Callable[[object], str | None]) -> bytes:
    class Pickler(pickle.Pickler):
        def persistent_id(self, obj: object) -> str | None:
            return name_of(obj)

        def reducer_override(self, obj: object) -> Any:
            """By way of the CPU: a worker has other GPUs, or none."""
            if not isinstance(obj, Tensor) or obj.device.type == "cpu":
                return NotImplemented
            here = obj.detach().cpu().requires_grad_(obj.requires_grad)
            kept = nn.Parameter(here, obj.requires_grad) if isinstance(obj, nn.Parameter) else here
            return kept.__reduce_ex__(pickle.HIGHEST_PROTOCOL)

    buffer = io.BytesIO()
    Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(thing)
    return buffer.getvalue()


def _loaded(content: bytes, part: Callable[[str], Any]) -> Any:
    class Loader(pickle.Unpickler):
        def persistent_load(self, pid: str) -> Any:
            return part(pid)

    return Loader(io.BytesIO(content)).load()  # bytes of our own driver
