"""Scale: on what and how thoroughly a table of the paper is run."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from igdefense.errors import SettingError
from igdefense.models.weights_file import SUFFIXES

CLIP = "open_clip:ViT-B-16/openai"


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Model, data and budgets; an empty name is one that the user has to bring."""

    name: str
    model: str = "embedded"
    arch: str | None = None
    layer: str | None = None  # None is the penultimate one
    keep: int = 16
    data: str = "embedded:test"
    probe: str = "embedded:probe"
    n: int = 32
    suite: str = "quick"
    encoder: str = "embedded"
    sodef: str | None = None  # a trained head; None is the embedded model's own
    eps: float = 8 / 255


@dataclass(frozen=True, kw_only=True)
class Setup:
    """On what the paper ran a table."""

    bases: tuple[str, ...] = ("DAJAT RN18",)
    arch: str = "resnet18"
    keep: int = 50
    dataset: str = "CIFAR-10"
    data: str = "cifar10:test"
    probe: str = "cifar10:train"
    n: int = 10_000
    eps: float = 8 / 255


SCALES = {
    "embedded": Scale(name="embedded"),
    "small": Scale(name="small", n=200, suite="paper"),
    "paper": Scale(name="paper", model="", suite="paper", encoder=CLIP),
}
RN18 = Setup(bases=("NuAT RN18", "OAAT RN18", "DAJAT RN18"))
TR_AWP = ("TR-AWP WRN-34-10",)
SETUPS: dict[str, Setup] = {
    "cifar10-rn18": RN18,
    "cifar10-wrn": Setup(
        bases=("NuAT WRN-34-10", *TR_AWP, "DAJAT WRN-34-10"),
        arch="wrn-34-10",
    ),
    "cifar100": Setup(
        bases=("OAAT RN18", "DAJAT RN18", "LAS WRN-34-10 (--arch wrn-34-10)"),
        dataset="CIFAR-100",
        data="cifar100:test",
        probe="cifar100:train",
    ),
    "imagenet": Setup(
        bases=("FAT RN50", "RTB RN50"),
        arch="resnet50",
        keep=750,
        dataset="ImageNet-1k",
        data="imagenet:first-5000",
        probe="imagenet:train",
        n=5_000,
        eps=4 / 255,
    ),
    "rivals": Setup(bases=("OAAT RN18", "DAJAT RN18", *TR_AWP)),
    "rivals-extended": Setup(bases=("OAAT RN18", "DAJAT RN18", *TR_AWP)),
    "ablation": Setup(bases=TR_AWP, arch="wrn-34-10"),
    "activation-shift": Setup(bases=("GAT RN18", "NuAT RN18", "OAAT RN18", "DAJAT RN18", *TR_AWP)),
}


def setup_of(table: str) -> Setup:
    """Most of the appendix is about one base model."""
    return SETUPS.get(table, Setup())


def is_checkpoint(model: str) -> bool:
    """Whether a model is a file, for which an architecture has to be named."""
    return bool(model) and (Path(model).exists() or model.endswith(SUFFIXES))


def scaled(name: str, table: str | None = None, **changes: Any) -> Scale:
    """A scale by its name, as the table has it, with what the user gave in place of its own."""
    if name not in SCALES:
        raise SettingError(f"No scale {name!r}; expected one of {', '.join(SCALES)}.")
    setup = setup_of(table or "")
    scale = replace(SCALES[name], eps=setup.eps)
    if name == "paper":
        scale = replace(
            scale,
            arch=setup.arch,
            keep=setup.keep,
            data=setup.data,
            probe=setup.probe,
            n=setup.n,
        )
    given = {key: value for key, value in changes.items() if value is not None}
    if not is_checkpoint(given.get("model", "")):
        scale = replace(scale, arch=None)
    return replace(scale, **given)
