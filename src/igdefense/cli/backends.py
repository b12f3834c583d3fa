"""Where a command's units of work run: the options, and the backend they name."""

from enum import StrEnum
from typing import Annotated

import typer

from igdefense.cli.options import refuse_given
from igdefense.running.local import Local
from igdefense.running.pool import Backend
from igdefense.running.ray import Ray


class BackendName(StrEnum):
    LOCAL = "local"
    RAY = "ray"


WorkersOption = Annotated[
    int, typer.Option(help="Processes on this machine; with --backend ray, workers at most.")
]
BackendOption = Annotated[
    BackendName,
    typer.Option(help="Where units of work run: processes of this machine, or a Ray cluster."),
]
AddressOption = Annotated[
    str,
    typer.Option(
        help="Ray: auto (the cluster this machine is in), HOST:PORT, or local (start one here)."
    ),
]
GpusOption = Annotated[
    float | None,
    typer.Option(help="Ray: GPUs of a worker, may be a part of one; 1 where there are any."),
]
CpusOption = Annotated[float, typer.Option(help="Ray: CPUs of a worker.")]
StoreOption = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER-or-URL",
        help="Where finished units are kept: a folder that all machines share, or an address such "
        "as s3://bucket/folder; a folder at --out by default.",
    ),
]


def backend_for(
    ctx: typer.Context,
    backend: BackendName,
    workers: int,
    address: str,
    gpus_per_worker: float | None,
    cpus_per_worker: float,
) -> Backend:
    """The backend that the options name; it is left when the command ends."""
    if backend is BackendName.LOCAL:
        idle = ("address", "gpus_per_worker", "cpus_per_worker")
        refuse_given(ctx, idle, "it is for --backend ray")
        return Local(workers)
    source = ctx.get_parameter_source("workers")
    given = source is not None and source.name == "COMMANDLINE"
    cluster = Ray(address, workers if given else None, cpus_per_worker, gpus_per_worker)
    return ctx.with_resource(cluster)
