"""What a table needs and this machine does not have, told before any work."""

from collections.abc import Callable, Iterator
from functools import partial

import torch

from igdefense.data.datasets import load_data
from igdefense.errors import IGDefenseError, SettingError
from igdefense.paper.bench import Bench
from igdefense.paper.scale import Setup, setup_of
from igdefense.rankings.encoders.encoder import load_encoder

WITH_SODEF = ("rivals", "rivals-extended", "gradient-masking")
WITHOUT_CD_IR = ("activation-shift",)


def missing(table: str, bench: Bench) -> list[str]:
    """A clause for each thing that has to be brought; empty if the table can be run."""
    return list(_missing(table, bench))


def advice(table: str, bench: Bench) -> str | None:
    """What is not needed but would be missed: a whole table of the paper wants a GPU."""
    if bench.scale.name != "paper" or torch.device(bench.device).type != "cpu":
        return None
    found = "there is one: --device cuda" if torch.cuda.is_available() else "none is visible here"
    return f"a GPU is wanted for {table} at the paper's n, and {found}"


def _missing(table: str, bench: Bench) -> Iterator[str]:
    scale, setup = bench.scale, setup_of(table)
    loaded = False
    if not scale.model:
        yield (
            f"the base model: a checkpoint of {_any_of(setup)} by --model FILE "
            f"(--arch {setup.arch} unless you name another)"
        )
    else:
        found = _complaint(lambda: bench.model)
        loaded = found is None
        yield from [f"the base model: {found}"] * (not loaded)
    for option, spec, what in (
        ("--data", scale.data, "the images to judge on"),
        ("--probe", scale.probe, "those to rank by"),
    ):
        if not spec:
            yield f"{setup.dataset}, {what}: {option} folder:PATH or FILE.npz"
        else:
            found = _complaint(partial(load_data, spec, n=1))
            yield from [f"{what}: {found}"] * (found is not None)
    if table not in WITHOUT_CD_IR and (found := _complaint(lambda: load_encoder(scale.encoder))):
        yield f"the encoder of CD-IR, {scale.encoder}: {found}"
    if table in WITH_SODEF:
        if loaded and (found := _complaint(lambda: bench.head)):
            yield f"SODEF's head, by --sodef FILE: {found}"
        elif not loaded and not scale.sodef:
            yield "SODEF's head for that base model: `igd train sodef`, then --sodef FILE"


def _any_of(setup: Setup) -> str:
    return setup.bases[0] if len(setup.bases) == 1 else f"one of {', '.join(setup.bases)}"


def _complaint(load: Callable[[], object]) -> str | None:
    try:
        load()
    except IGDefenseError as error:
        return str(error).rstrip(".")
    return None


def device_for(asked: str | None, scale: str) -> str:
    """The device asked for, if it is there; at the scale paper a GPU unless told otherwise."""
    there = torch.cuda.is_available()
    chosen = asked or ("cuda" if there and scale == "paper" else "cpu")
    kind, _, number = chosen.partition(":")
    known = kind in ("cpu", "cuda", "mps") and (not number or number.isdigit())
    if not known:
        raise SettingError(f"No device {chosen!r}; expected cpu, cuda, cuda:1 or mps.")
    if kind == "cuda" and not (there and int(number or 0) < torch.cuda.device_count()):
        raise SettingError(f"There is no {chosen} here; leave --device out to use the processor.")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise SettingError("There is no mps here; leave --device out to use the processor.")
    return chosen
