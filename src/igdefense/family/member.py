"""A member of the family of IG-Defense: its settings by name, and the defense they make."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from typing import Any

from torch import nn

from igdefense.defenses.averaged import AveragedDefense
from igdefense.defenses.ig_defense import IGDefense
from igdefense.defenses.layered import LayeredDefense
from igdefense.defenses.smoothing import Smoothed
from igdefense.defenses.static_head import class_masked, spectral
from igdefense.errors import SettingError
from igdefense.family.probed import METHODS, Probed
from igdefense.rankings.combined import WAYS

NOISE = ("sigma", "samples")
USES = {
    "masked": ("ranking", "layer", "keep", *NOISE, "temperature"),
    "averaged": ("ranking", "layer", "keep", *NOISE, "temperature"),
    "class-masks": ("ranking", "layer", "keep"),
    "spectral": ("layer", "keep"),
    "smoothing": NOISE,
}
"""The kinds, and which settings each of them has."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """Settings of one defense.

    `masked` is IG-Defense, `averaged` its second pass on the noisy copies, `class-masks` and
    `spectral` are static heads, `smoothing` is noise alone. `layer` is one layer, or several joined
    by a plus, `layer3+layer4`; none is the model's penultimate one. `keep` counts neurons, or
    directions of `spectral`; below 1 it is a share of them. A setting that the kind does not have
    is forgotten.
    """

    kind: str = "masked"
    ranking: str = "lo-ir"
    layer: str = ""
    keep: float = 0.125
    sigma: float = 4 / 255
    samples: int = 1
    temperature: float = 0.01

    def __post_init__(self) -> None:
        _check(self.kind, "kind", tuple(USES))
        _check(self.ranking, "ranking", (*METHODS, *WAYS))
        if not self.keep > 0 or (self.keep >= 1 and self.keep != int(self.keep)):
            raise SettingError(f"keep = {self.keep:g}; expected a number of neurons, or a share.")
        if self.kind != "masked" and "+" in self.layer:
            raise SettingError(f"{self.kind} has one layer, not {self.layer!r}.")
        for field in fields(self):
            if field.name != "kind" and field.name not in USES[self.kind]:
                object.__setattr__(self, field.name, field.default)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Member":
        """From names and values, numbers also as text: `4/255`."""
        known = {field.name: field.type for field in fields(cls)}
        for name in settings:
            _check(name, "setting", tuple(known))
        return cls(**{name: PARSED[name](value) for name, value in settings.items()})

    def to_json(self) -> dict[str, Any]:
        """The settings that it has."""
        return {k: v for k, v in asdict(self).items() if k == "kind" or k in USES[self.kind]}

    @property
    def name(self) -> str:
        """In words, only what it has."""
        words = [self.kind] if self.kind not in ("masked", "averaged") else [self.ranking]
        if self.kind == "class-masks":
            words.append(self.ranking)
        words += [self.layer] * bool(self.layer)
        if self.kind != "smoothing":
            words.append(f"keep {Fraction(self.keep).limit_denominator(1000)}")
        if "sigma" in USES[self.kind]:
            draws = f" x {self.samples}" if self.sigma and self.samples > 1 else ""
            words.append(f"sigma {255 * self.sigma:.3g}/255{draws}" if self.sigma else "no noise")
        if "temperature" in USES[self.kind]:
            words.append(f"tau {self.temperature:g}" if self.temperature else "hard mask")
        return ", ".join(words + ["averaged"] * (self.kind == "averaged"))

    @property
    def complexity(self) -> tuple[int, int, int]:
        """Forward passes, layers and rankings: of two that do equally well the simpler is taken."""
        copies = self.samples if self.sigma else 1
        passes = {"masked": copies + (self.sigma > 0), "averaged": copies, "smoothing": copies}
        rankings = 0 if "ranking" not in USES[self.kind] else 1 + (self.ranking in WAYS)
        return passes.get(self.kind, 1), len(self.layer.split("+")), rankings

    def build(self, probed: Probed, seed: int = 0) -> nn.Module:
        """The defense around the probed model."""
        noise: dict[str, Any] = {"sigma": self.sigma, "samples": self.samples, "seed": seed}
        if self.kind == "smoothing":
            return Smoothed(probed.model, **noise)
        layers = [probed.layer(name) for name in self.layer.split("+")]
        if self.kind == "spectral":
            directions = self._count(probed.features(layers[0]))
            return spectral(probed.model, probed.data, layers[0], directions)
        rankings = [probed.ranking(self.ranking, layer) for layer in layers]
        keeps = [self._count(ranking.neurons) for ranking in rankings]
        if self.kind == "class-masks":
            return class_masked(probed.model, rankings[0], keeps[0], probed.data.images[:2])
        settings = noise | {"temperature": self.temperature}
        if len(layers) > 1:
            return LayeredDefense(probed.model, rankings, keeps, **settings)
        kind = AveragedDefense if self.kind == "averaged" else IGDefense
        return kind(probed.model, rankings[0], keeps[0], **settings)

    def other_method(self) -> str | None:
        """Which other ranking an adversary would craft with."""
        if self.kind not in ("masked", "averaged"):
            return None
        return "cd-ir" if self.ranking in ("lo-ir", "lo-ir-absolute") else "lo-ir"

    def _count(self, neurons: int) -> int:
        return max(1, round(self.keep * neurons)) if self.keep < 1 else int(self.keep)


def as_number(value: Any) -> float:
    """`8/255`, `0.03` and 0.03 alike."""
    try:
        return float(Fraction(str(value).strip()))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise SettingError(f"{value!r} is not a number; write 8/255 or 0.03.") from None


def _whole(value: Any) -> int:
    found = as_number(value)
    if found != int(found):
        raise SettingError(f"{value!r} is not a whole number.")
    return int(found)


PARSED: dict[str, Callable[[Any], Any]] = {
    **{"kind": str, "ranking": str, "layer": str, "samples": _whole},
    **{"keep": as_number, "sigma": as_number, "temperature": as_number},
}


def _check(value: str, what: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise SettingError(f"There is no {what} {value!r}; expected one of {', '.join(known)}.")
