"""What the members of a search are made of, computed once from the probe set."""

import logging
from pathlib import Path

from torch import nn

from igdefense.data.data import Data
from igdefense.errors import IGDefenseError, SettingError
from igdefense.layers import check_layer, neurons_of
from igdefense.models.penultimate import recommended_layer
from igdefense.rankings.clip_dissect import clip_dissect
from igdefense.rankings.combined import WAYS, combined
from igdefense.rankings.controls import random_for
from igdefense.rankings.leave_one_out import leave_one_out
from igdefense.rankings.ranking import Ranking

log = logging.getLogger(__name__)
METHODS = ("lo-ir", "lo-ir-absolute", "cd-ir", "random")


class Probed:
    """A model and its probe set; rankings are made when asked for, and kept in `folder`."""

    def __init__(
        self, model: nn.Module, data: Data, *, encoder: str = "embedded", folder: Path | None = None
    ) -> None:
        self.model, self.data, self.encoder, self.folder = model, data, encoder, folder
        self._made: dict[tuple[str, str], Ranking] = {}

    def keep_in(self, folder: Path) -> None:
        """Keep the rankings there, those made so far too."""
        self.folder = folder
        for (method, layer), ranking in self._made.items():
            path = self._path(method, layer)
            if path is not None and not path.exists() and method not in WAYS:
                ranking.save(path)

    def layer(self, name: str = "") -> str:
        """The layer of that name; without one, the penultimate layer."""
        found = name or recommended_layer(self.model, self.data.images[:2])
        if found is None:
            raise SettingError("The penultimate layer is not known: name it, --vary layer=NAME.")
        return found

    def features(self, layer: str) -> int:
        """How many neurons the layer has."""
        return neurons_of(check_layer(self.model, layer, self.data.images[:2])[0])

    def ranking(self, method: str, layer: str) -> Ranking:
        """By a method of `METHODS`, or LO-IR and CD-IR together in one of `WAYS`."""
        if (method, layer) not in self._made:
            self._made[method, layer] = self._kept(method, layer)
        return self._made[method, layer]

    def other(self, method: str | None, layer: str) -> Ranking | str | None:
        """A ranking for the adversary, or the reason why there is none."""
        if method is None:
            return None
        try:
            return self.ranking(method, layer)
        except IGDefenseError as error:
            return f"the other ranking cannot be made: {error}"

    def _kept(self, method: str, layer: str) -> Ranking:
        if method in WAYS:
            return combined(self.ranking("lo-ir", layer), self.ranking("cd-ir", layer), method)
        path = self._path(method, layer)
        if path is not None and path.exists():
            return Ranking.load(path, self.model)
        log.info("ranking %s by %s", layer, method)
        made = self._rank(method, layer)
        if path is not None:
            made.save(path)
        return made

    def _path(self, method: str, layer: str) -> Path | None:
        return self.folder and self.folder / f"{method}@{layer}.safetensors"

    def _rank(self, method: str, layer: str) -> Ranking:
        if method == "cd-ir":
            return clip_dissect(self.model, self.data, layer, encoder=self.encoder)
        if method == "random":
            return random_for(self.model, self.data.images[:2], layer)
        absolute = method == "lo-ir-absolute"
        return leave_one_out(
            self.model, self.data, layer, change="absolute" if absolute else "signed"
        )
