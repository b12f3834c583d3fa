"""The rivals on the command line: their options, and a rival from its settings."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from torch import nn

from igdefense.cli.options import number, refuse_given
from igdefense.defenses.rivals.anti_adversary import AntiAdversary
from igdefense.defenses.rivals.head import Head, shipped_head
from igdefense.defenses.rivals.hedge import Hedge
from igdefense.defenses.rivals.sodef import SODEF


class Rival(StrEnum):
    HEDGE = "hedge"
    ANTI_ADVERSARY = "anti-adversary"
    SODEF = "sodef"


class HedgeVariant(StrEnum):
    AUTHORS = "authors"
    CROCE = "croce"
    CROCE_RANDOM = "croce-random"


class GradientName(StrEnum):
    AROUND = "around"
    THROUGH = "through"


class SolverName(StrEnum):
    RK4 = "rk4"
    DOPRI5 = "dopri5"


HedgeVariantOption = Annotated[
    HedgeVariant,
    typer.Option(
        help="authors: 0.007 steps within 0.031, logits summed; croce: 4/255 within 8/255, end "
        "point; croce-random: the same from a random start."
    ),
]
InnerStepsOption = Annotated[
    int | None, typer.Option(help="Steps inside hedge (20 unless given) or anti-adversary (2).")
]
AntiAdversaryEpsOption = Annotated[
    float | None,
    typer.Option(
        parser=number,
        metavar="NUMBER",
        help="Keep the anti-adversary within this of the image and in [0, 1]; not kept otherwise.",
    ),
]
GradientOption = Annotated[
    GradientName | None,
    typer.Option(
        help="How attacks differentiate a rival: around its inner loop (BPDA) or through it. "
        "Unless given, around hedge and anti-adversary, through sodef."
    ),
]
SodefOption = Annotated[
    Path | None,
    typer.Option(
        metavar="HEAD", help="Head made by `igd train sodef`; the embedded model's has come along."
    ),
]
SodefSolverOption = Annotated[
    SolverName,
    typer.Option(help="rk4: 20 equal steps; dopri5: adaptive, each image by itself, slow."),
]

OWN = {
    Rival.HEDGE: ("hedge_variant", "inner_steps", "gradient"),
    Rival.ANTI_ADVERSARY: ("anti_adversary_eps", "inner_steps", "gradient"),
    Rival.SODEF: ("sodef", "sodef_solver", "gradient"),
}
FOREIGN = ("ranking", "keep", "sigma", "samples", "temperature")  # of IG-Defense


def check_options(ctx: typer.Context, defense: str) -> None:
    """Refuse the options of one defense where another is judged."""
    rival = Rival(defense) if defense in list(Rival) else None
    own = OWN[rival] if rival else ()
    others = {name for names in OWN.values() for name in names if name not in own}
    refuse_given(ctx, sorted(others), f"the defense is {defense}")
    if rival:
        refuse_given(ctx, FOREIGN, f"the defense is {defense}")


def rival_settings(
    *,
    variant: HedgeVariant = HedgeVariant.AUTHORS,
    steps: int | None = None,
    eps: float | None = None,
    gradient: GradientName | None = None,
    solver: SolverName = SolverName.RK4,
) -> dict[str, Any]:
    """Plain data from which `build_rival` makes a rival, now and when a run is verified."""
    return {
        "variant": variant.value,
        "steps": steps,
        "eps": eps,
        "gradient": gradient and gradient.value,
        "solver": solver.value,
    }


def head_for(defense: str, base: nn.Module, path: Path | None) -> Head | None:
    """SODEF's head, if it is SODEF: the file's, or the one that came along."""
    if defense != Rival.SODEF:
        return None
    return shipped_head(base) if path is None else Head.load(path, base)


def build_rival(
    rival: Rival, base: nn.Module, settings: dict[str, Any], head: Head | None, seed: int
) -> nn.Module:
    """The rival around that base model."""
    mode = {"gradient": settings["gradient"]} if settings["gradient"] else {}
    walk = mode | ({"steps": settings["steps"]} if settings["steps"] is not None else {})
    if rival is Rival.HEDGE:
        return Hedge(base, settings["variant"], seed=seed, **walk)
    if rival is Rival.ANTI_ADVERSARY:
        return AntiAdversary(base, eps=settings["eps"], **walk)
    assert head is not None
    return SODEF(base, head, solver=settings["solver"], **mode)
