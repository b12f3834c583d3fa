"""The model, data, rankings and runs that the paper's tables share, each made once."""

import logging
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import nn

from igdefense import __version__
from igdefense.analysis.activation_shift import ActivationShift, activation_shift
from igdefense.analysis.cost import cost
from igdefense.analysis.loss_surface import LossSurface, loss_surface
from igdefense.attacks.suites import Column
from igdefense.attacks.threat import Linf
from igdefense.data.data import Data
from igdefense.data.datasets import load_data
from igdefense.data.subset import balanced
from igdefense.defenses.ig_defense import defend
from igdefense.defenses.rivals.head import Head, shipped_head
from igdefense.defenses.smoothing import Smoothed
from igdefense.errors import SettingError
from igdefense.expert.suite import columns_of
from igdefense.models.architectures import default_layer
from igdefense.models.fingerprint import hash_text, identity
from igdefense.models.load import load_model
from igdefense.paper.scale import Scale
from igdefense.rankings.cache import Cache
from igdefense.rankings.clip_dissect import clip_dissect
from igdefense.rankings.controls import shuffled
from igdefense.rankings.leave_one_out import leave_one_out
from igdefense.rankings.ranking import Ranking
from igdefense.running.local import Local
from igdefense.running.pool import Backend
from igdefense.types import Images
from igdefense.verdicts.evaluate import IMAGES, evaluate
from igdefense.verdicts.run import RESULTS, Run
from igdefense.verdicts.units import QUERIED, versions

log = logging.getLogger(__name__)


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
        device: str = "cpu",
    ) -> None:
        self.scale, self.out, self.seed, self.device = scale, out, seed, device
        self.backend, self.store = backend or Local(workers), store or out / "store"
        self._rankings: dict[tuple[str, str, int | None], Ranking] = {}

    @cached_property
    def model(self) -> nn.Module:
        return load_model(self.scale.model, self.scale.arch).to(self.device)

    @property
    def layer(self) -> str:
        """The one the user named, or the penultimate one."""
        found = self.scale.layer or default_layer(self.model)
        if found is None:
            raise SettingError(
                f"The penultimate layer of {self.scale.model} is not known: name it by --layer."
            )
        return found

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
            **{"scale": s.name, "model": s.model, "layer": self.layer, "keep": s.keep},
            **{"data": s.data, "n": len(self.data), "suite": s.suite},
            **{"eps": f"{s.eps * 255:g}/255", "seed": self.seed},
        }

    def ranking(
        self, method: str, layer: str | None = None, per_class: int | None = None
    ) -> Ranking:
        """LO-IR, CD-IR or random, on all of the probe set or on a balanced part of it."""
        key = (method, layer or self.layer, per_class)
        if key not in self._rankings:
            probe = self.probe
            if per_class is not None:
                probe = balanced(probe, per_class, self.seed)
            made = self._rank("LO-IR" if method == "random" else method, probe, key[1])
            self._rankings[key] = shuffled(made, self.seed) if method == "random" else made
        return self._rankings[key]

    def _rank(self, method: str, probe: Data, layer: str, cache: Cache | None = None) -> Ranking:
        if method == "CD-IR":
            return clip_dissect(
                self.model,
                probe,
                layer,
                encoder=self.scale.encoder,
                cache=cache,
                backend=self.backend,
            )
        return leave_one_out(self.model, probe, layer, backend=self.backend)

    def rank_anew(
        self, method: str, layer: str | None = None, probe: Data | None = None
    ) -> Ranking:
        """A ranking that finds nothing done before: for timing."""
        with tempfile.TemporaryDirectory() as folder:
            return self._rank(method, probe or self.probe, layer or self.layer, Cache(Path(folder)))

    @cached_property
    def head(self) -> Head:
        """SODEF's head for the base model."""
        given = self.scale.sodef
        return Head.load(Path(given), self.model) if given else shipped_head(self.model)

    def times(self, defenses: Mapping[str, nn.Module]) -> dict[str, float]:
        """What a prediction of each costs, in forward passes of the base model."""
        images = self.data.images[:32].to(self.device)
        measured = cost(self.model, defenses, images, batches=[len(images)])
        return {row.defense: row.ratio for row in measured.rows}

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
        folder = self._folder(name, defense, chosen, size, budget)
        if (folder / RESULTS).is_file():
            log.info("%s: done before", name)
            return Run.load(folder)
        log.info("%s", name)
        return evaluate(
            defense,
            self.data,
            base=self.model,
            suite=chosen,
            eps=size,
            seed=self.seed,
            budget=budget,
            out=folder,
            store=self.store,
            backend=self.backend,
            name=name,
        )

    def shift(self, column: Column) -> ActivationShift:
        """How the base model's activations shift under one attack, by LO-IR's neurons."""
        return activation_shift(
            self.model,
            self.ranking("LO-IR"),
            self.scale.keep,
            self.data.images[:].to(self.device),
            self.crafted(column),
            self.data.labels.to(self.device),
            seed=self.seed,
        )

    def surface(self, name: str, defense: nn.Module, count: int) -> LossSurface:
        """The loss around the first images; every point of it is kept in a file."""
        images, labels = (
            part[:count].to(self.device) for part in (self.data.images, self.data.labels)
        )
        found = loss_surface(defense, images, labels, eps=self.scale.eps, seed=self.seed)
        found.save(self.out / f"loss-surface-{name}.json")
        return found

    def crafted(self, column: Column) -> Images:
        """All images as one attack on the base model leaves them, from the store where it can."""
        eps = column.attack.threat.eps
        self.run(column.name, self.model, suite=(column,), eps=eps)
        folder = self._folder(column.name, self.model, (column,), eps, None)
        return load_file(folder / IMAGES / f"{column.name}.safetensors")["x"].to(self.device)

    def _folder(
        self,
        name: str,
        defense: nn.Module,
        suite: str | tuple[Column, ...],
        eps: float,
        budget: dict[str, int] | None,
    ) -> Path:
        """Named by all that a run depends on, so that a finished one need not be asked again."""
        columns = columns_of(suite, Linf(eps), budget) if isinstance(suite, str) else suite
        attacks = [(repr(column), versions(column.attack)) for column in columns]
        models = [identity(model) for model in (defense, self.model)]
        about = hash_text(
            name, attacks, eps, models, self.data.fingerprint, self.seed, QUERIED, __version__
        )
        return self.out / "runs" / about
