"""Ranking: how much each neuron of a layer matters to each class, and where that came from."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from igdefense.errors import RankingError, SettingError
from igdefense.files import written_whole
from igdefense.models.fingerprint import hash_text, weights_fingerprint
from igdefense.types import Masks, Scores

FORMAT = "igdefense-ranking-1"


@dataclass(frozen=True, eq=False)
class Ranking:
    """Scores of a layer's neurons for each class: the higher, the more the class needs it."""

    layer: str
    scores: Scores
    provenance: Mapping[str, str] = field(default_factory=dict)
    """method, settings, model and data (fingerprints), images, version."""

    def __post_init__(self) -> None:
        if not torch.isfinite(self.scores).all():
            raise RankingError("The ranking holds scores that are not finite.")
        # As they will be when they are loaded: sums over them round by their order in memory.
        object.__setattr__(self, "scores", self.scores.contiguous())

    @property
    def classes(self) -> int:
        return self.scores.shape[0]

    @property
    def neurons(self) -> int:
        return self.scores.shape[1]

    def __repr__(self) -> str:
        method = self.provenance.get("method", "ranking")
        return f"{method} of {self.layer}: {self.classes} classes x {self.neurons} neurons"

    def masks(self, keep: int) -> Masks:
        """1 at the `keep` neurons that matter most to each class, 0 elsewhere."""
        if not 1 <= keep <= self.neurons:
            raise SettingError(
                f"keep = {keep} is outside 1 to {self.neurons}, the neurons of {self.layer!r}."
            )
        best = self.order[:, :keep]
        return torch.zeros_like(self.scores).scatter(1, best, 1.0)

    @property
    def order(self) -> torch.Tensor:
        """Each class's neurons from most to least important; ties go to the lower number."""
        return self.scores.argsort(dim=1, descending=True, stable=True)

    @property
    def fingerprint(self) -> str:
        """Names the layer and the scores."""
        return hash_text(self.layer, self.scores.double().tolist())

    def save(self, path: str | Path) -> None:
        """Write a safetensors file with the provenance in its header."""
        header = {"format": FORMAT, "layer": self.layer, "provenance": json.dumps(self.provenance)}
        with written_whole(Path(path)) as part:
            save_file({"scores": self.scores.cpu().contiguous()}, part, metadata=header)

    @classmethod
    def load(
        cls, path: str | Path, model: nn.Module | None = None, *, force: bool = False
    ) -> "Ranking":
        """Read a ranking; with `model`, refuse one that was made for other weights."""
        if not Path(path).is_file():
            raise RankingError(f"There is no ranking file {path}. `igd rank` makes one.")
        try:
            with safe_open(path, framework="pt") as file:
                header = file.metadata() or {}
                if header.get("format") != FORMAT:
                    raise RankingError(
                        f"{path} is a safetensors file but not a ranking of this project; "
                        "`igd rank` makes one."
                    )
                scores = file.get_tensor("scores")
            ranking = cls(header["layer"], scores, dict(json.loads(header["provenance"])))
        except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
            raise RankingError(f"{path} is not a whole ranking file ({error}).") from error
        if model is not None:
            ranking.check_belongs(model, force=force)
        return ranking

    def check_belongs(self, model: nn.Module, *, force: bool = False) -> None:
        """Refuse a model whose weights are not those that were ranked."""
        ranked = self.provenance.get("model")
        if ranked is None or force:
            return
        given = weights_fingerprint(model)
        if given != ranked:
            raise RankingError(
                f"This ranking was made for a model with fingerprint {ranked}; the given "
                f"{type(model).__name__} has {given}. Rank it anew, or force it (force=True, "
                "--force-ranking)."
            )
