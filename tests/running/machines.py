"""Two machines in one: a Ray cluster of two nodes with one CPU each."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LIMITS = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
# A node that is gone is noticed within two seconds, not half a minute.
ALERT = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500}
ALERT |= {"health_check_failure_threshold": 4}


class Machines:
    """A head and a second node, which can be lost and replaced."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster  # noqa: PLC0415

        self._cluster: Any = Cluster(
            initialize_head=True, head_node_args={**LIMITS, "_system_config": ALERT}
        )
        self.address: str = self._cluster.address
        self.second: Any = None
        self.add_second()

    def add_second(self) -> None:
        self.second = self._cluster.add_node(**LIMITS)

    def lose_second(self) -> None:
        self._cluster.remove_node(self.second, allow_graceful=False)

    def shutdown(self) -> None:
        self._cluster.shutdown()


@contextmanager
def machines() -> Iterator[Machines]:
    """The cluster; it ends with the block."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # else a busy machine leaves them nothing
    found = Machines()
    try:
        yield found
    finally:
        found.shutdown()
