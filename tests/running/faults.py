"""An attack that ends its worker, or holds it up, the first time somebody asks for it."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torch import Generator, nn

from igdefense.attacks.pgd import PGD
from igdefense.attacks.threat import Threat
from igdefense.attacks.views import View
from igdefense.randomness import Streams
from igdefense.types import Images, Labels

KILL, HOLD, CUT_OFF = "kill", "hold", "interrupt"


@dataclass(frozen=True, kw_only=True)
class Troubled:
    """PGD, once the trouble is over. A file `kill`, `hold` or `interrupt` in the folder asks for it
    and is gone when it begins; `hold` names the node."""

    version: ClassVar[int] = 1

    threat: Threat
    folder: str

    def __call__(
        self, view: View | nn.Module, images: Images, labels: Labels, rng: Generator | Streams
    ) -> Images:
        x = PGD(threat=self.threat, steps=5)(view, images, labels, rng=rng)
        if self._begins(KILL):
            os.kill(os.getpid(), signal.SIGKILL)  # the work is done, and not yet kept
        if self._begins(CUT_OFF):
            raise KeyboardInterrupt
        if self._begins(HOLD):
            Path(self.folder, "held").touch()
            time.sleep(300)
        return x

    def _begins(self, trouble: str) -> bool:
        path = Path(self.folder, trouble)
        if not path.exists() or path.read_text() not in ("", _node()):
            return False
        path.unlink()
        return True


def _node() -> str:
    import ray  # noqa: PLC0415

    return str(ray.get_runtime_context().get_node_id()) if ray.is_initialized() else ""
