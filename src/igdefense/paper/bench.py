"""The model, data, rankings and runs that the paper's tables share, each made once."""

import logging
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from igdefense.attacks.suites import Column
from igdefense.data.data import Data
from igdefense.data.datasets import load_data
from igdefense.data.subset import balanced
from igdefense.defenses.ig_defense import defend
from igdefense.defenses.smoothing import Smoothed
from igdefense.errors import SettingError
from igdefense.models.fingerprint import hash_text
from igdefense.models.load import load_model
from igdefense.rankings.clip_dissect import clip_dissect
from igdefense.rankings.controls import shuffled
from igdefense.rankings.leave_one_out import leave_one_out
from igdefense.rankings.ranking import Ranking
from igdefense.running.local import Local
from igdefense.running.pool import Backend
from igdefense.verdicts.evaluate import evaluate
from igdefense.verdicts.run import Run

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Scale:
    """On what and how thoroughly a table of the paper is run."""

    name: str
    model: str = "embedded"
    arch: str | None = None
    layer: str = "layer4"
    keep: int = 16
    data: str = "embedded:test"
    probe: str = "embedded:probe"
    n: int = 32
    suite: str = "quick"
    encoder: str = "embedded"
    eps: float = 8 / 255


SCALES = {
    "embedded": Scale(name="embedded"),
    "small": Scale(name="small", n=200, suite="paper"),
    "paper": Scale(
        name="paper",
        model="",
        keep=50,
        data="cifar10:test",
        probe="cifar10:train",
        n=10_000,
        suite="paper",
        encoder="open_clip:ViT-B-16/openai",
    ),
}


class Bench:
    """Everything a table needs, at one scale; all runs share one store under `out`."""

    def __init__(
        self,
        scale: Scale,
        out: Path,
        *,
        seed: int = 0,
        workers: int = 1,
        backend: Backend | None = None,
        store: str | Path | None = None,
    ) -> None:
        if not scale.model:
            raise SettingError(
                "--scale paper needs the paper's base model: a checkpoint by --model FILE and "
                "--arch, CIFAR-10 by `igd data cifar10`, CLIP by --encoder. A full table is days "
                "on a GPU: try --n 100 first, and multiply."
            )
        self.scale, self.out, self.seed = scale, out, seed
        self.backend, self.store = backend or Local(workers), store or out / "store"
        self._rankings: dict[tuple[str, str, int | None], Ranking] = {}

    @cached_property
    def model(self) -> nn.Module:
        return load_model(self.scale.model, self.scale.arch)

    @cached_property
    def data(self) -> Data:
        return load_data(self.scale.data, n=self.scale.n)

    @cached_property
    def probe(self) -> Data:
        return load_data(self.scale.probe)

    @property
    def settings(self) -> dict[str, Any]:
        """What an outcome says about itself."""
        s = self.scale
        return {
            **{"scale": s.name, "model": s.model, "layer": s.layer, "keep": s.keep},
            **{"data": s.data, "n": len(self.data), "suite": s.suite},
            **{"eps": f"{s.eps * 255:g}/255", "seed": self.seed},
        }

    def ranking(
        self, method: str, layer: str | None = None, per_class: int | None = None
    ) -> Ranking:
        """LO-IR, CD-IR or random, on all of the probe set or on a balanced part of it."""
        key = (method, layer or self.scale.layer, per_class)
        if key not in self._rankings:
            probe = self.probe
            if per_class is not None:
                probe = balanced(probe, per_class, self.seed)
            if method == "CD-IR":
                made = clip_dissect(
                    self.model, probe, key[1], encoder=self.scale.encoder, backend=self.backend
                )
            else:
                made = leave_one_out(self.model, probe, key[1], backend=self.backend)
            self._rankings[key] = shuffled(made, self.seed) if method == "random" else made
        return self._rankings[key]

    def forget(self) -> None:
        """Rank anew from here on: for timing."""
        self._rankings.clear()

    def masked(
        self,
        method: str,
        *,
        keep: int | None = None,
        layer: str | None = None,
        per_class: int | None = None,
        sigma: float | None = None,
        samples: int = 1,
        temperature: float = 0.01,
    ) -> nn.Module:
        """IG-Defense with one setting changed; sigma is eps / 2 unless given."""
        return defend(
            self.model,
            self.ranking(method, layer, per_class),
            keep or self.scale.keep,
            sigma=self.scale.eps / 2 if sigma is None else sigma,
            samples=samples,
            temperature=temperature,
            seed=self.seed,
        )

    def smoothed(self) -> nn.Module:
        return Smoothed(self.model, sigma=self.scale.eps / 2, seed=self.seed)

    def run(
        self,
        name: str,
        defense: nn.Module,
        *,
        suite: str | tuple[Column, ...] | None = None,
        eps: float | None = None,
        budget: dict[str, int] | None = None,
    ) -> Run:
        """The defense under the scale's suite, or under another; resumed where it was cut off."""
        chosen, size = suite or self.scale.suite, eps or self.scale.eps
        about = hash_text(name, str(chosen), size, budget, asdict(self.scale), self.seed)
        log.info("%s", name)
        return evaluate(
            defense,
            self.data,
            base=self.model,
            suite=chosen,
            eps=size,
            seed=self.seed,
            budget=budget,
            out=self.out / "runs" / about,
            store=self.store,
            backend=self.backend,
            name=name,
        )


def scaled(name: str, **changes: Any) -> Scale:
    """A scale by its name, with what was given on the command line in place of its own."""
    if name not in SCALES:
        raise SettingError(f"No scale {name!r}; expected one of {', '.join(SCALES)}.")
    given = {key: value for key, value in changes.items() if value is not None}
    return replace(SCALES[name], **given)
