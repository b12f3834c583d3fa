"""The settings of a search: grids in a file, on the command line, or the default."""

import itertools
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from igdefense.errors import SettingError
from igdefense.family.member import Member
from igdefense.randomness import generator

Grid = Mapping[str, Any]
DEFAULT: tuple[Grid, ...] = (
    {"ranking": ["lo-ir", "cd-ir"], "keep": ["1/8", "1/4", "1/2"], "sigma": [0, "4/255"]},
    {"temperature": [0, 1]},
    {"samples": [4, 16]},
    {"ranking": ["lo-ir-absolute", "intersection", "union", "sum"]},
    {"kind": "averaged", "samples": [1, 4, 16]},
    {"kind": "smoothing", "samples": [1, 16]},
    {"kind": "class-masks", "keep": ["1/4", "1/2"]},
    {"kind": "spectral", "keep": ["1/16", "1/8", "1/4"]},
)


def default_space(model: nn.Module) -> tuple[Grid, ...]:
    """The family around the paper's setting; on ResNets an earlier layer, and both at once, too."""
    names = dict(model.named_modules())
    prefix = "model." if "model.layer3" in names else ""
    if f"{prefix}layer3" not in names or f"{prefix}layer4" not in names:
        return DEFAULT
    several = [f"{prefix}layer3", f"{prefix}layer3+{prefix}layer4"]
    return (*DEFAULT, {"layer": several, "keep": ["1/4", "1/2"]})


def members(grids: Iterable[Grid]) -> list[Member]:
    """Every combination of each grid's values, none twice."""
    found: dict[Member, None] = {}
    for grid in grids:
        lists = [value if isinstance(value, list) else [value] for value in grid.values()]
        if not all(lists):
            raise SettingError(f"A setting of the grid {dict(grid)} has no value.")
        for values in itertools.product(*lists):
            found[Member.of(dict(zip(grid, values, strict=True)))] = None
    if not found:
        raise SettingError("The space holds no settings.")
    return list(found)


def varied(pairs: Sequence[str]) -> tuple[Grid, ...]:
    """One grid from texts such as `keep=8,16` and `sigma=0,4/255`."""
    grid: dict[str, list[str]] = {}
    for pair in pairs:
        name, _, values = pair.partition("=")
        if not values:
            raise SettingError(f"--vary {pair!r}; expected NAME=VALUE,VALUE, such as keep=8,16.")
        grid[name.strip()] = [value.strip() for value in values.split(",")]
    return (grid,)


def read_space(path: Path) -> tuple[Grid, ...]:
    """The tables `[[grid]]` of a TOML file, or the list `grid` of a JSON file."""
    try:
        text = path.read_text(encoding="utf-8")
        record = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise SettingError(f"{path} is not a space of settings ({error}).") from error
    grids = record.get("grid") if isinstance(record, dict) else None
    if not isinstance(grids, list) or not all(isinstance(grid, dict) for grid in grids):
        raise SettingError(f"{path} has no tables [[grid]] with settings and their values.")
    return tuple(grids)


def drawn(space: Sequence[Member], trials: int | None, seed: int) -> list[Member]:
    """At most so many of the members, drawn by the seed, in their order."""
    if trials is not None and trials < 1:
        raise SettingError(f"trials = {trials}; at least 1 is needed.")
    if trials is None or trials >= len(space):
        return list(space)
    order = torch.randperm(len(space), generator=generator(seed, "trials"))[:trials]
    return [space[i] for i in sorted(order.tolist())]
