"""What `igd evaluate` judges: a defense from its recipe, now and when a run is looked at again."""

from enum import StrEnum
from pathlib import Path
from typing import Any

from torch import nn

from igdefense.cli.options import channels, check_classes, images_for, one_of_several
from igdefense.cli.rivals import Rival, build_rival, head_for
from igdefense.data.data import Data
from igdefense.defenses.ig_defense import defend
from igdefense.defenses.rivals.head import Head
from igdefense.defenses.smoothing import Smoothed
from igdefense.errors import IGDefenseError, SettingError
from igdefense.family.member import Member
from igdefense.family.probed import Probed
from igdefense.family.search import FAMILY
from igdefense.models.check import check_model
from igdefense.models.load import load_model
from igdefense.models.penultimate import recommended_layer
from igdefense.rankings.clip_dissect import clip_dissect
from igdefense.rankings.leave_one_out import leave_one_out
from igdefense.rankings.ranking import Ranking

RANKING, HEAD = "ranking.safetensors", "sodef.safetensors"
OTHER = "other-ranking.safetensors"


class Defense(StrEnum):
    NONE = "none"
    LO_IR = "lo-ir"
    CD_IR = "cd-ir"
    RANDOM = "random"
    SMOOTHING = "smoothing"
    HEDGE = Rival.HEDGE.value
    ANTI_ADVERSARY = Rival.ANTI_ADVERSARY.value
    SODEF = Rival.SODEF.value


MASKED = (Defense.LO_IR, Defense.CD_IR, Defense.RANDOM)  # those with a ranking


def rebuilt(
    run: Path, recipe: dict[str, Any], data_dir: Path | None
) -> tuple[nn.Module, nn.Module, Data]:
    """The base model, the defense and the data of a finished run, from the recipe it keeps."""
    base = load_model(
        recipe["model"],
        recipe["arch"],
        mean=channels(recipe["mean"]),
        std=channels(recipe["std"]),
        folder=Path(recipe["model_dir"]) if recipe.get("model_dir") else None,
    )
    if recipe["defense"] == FAMILY:
        probe = one_of_several(recipe["probe"], data_dir, size=recipe["size"])
        probed = Probed(base, probe, encoder=recipe["encoder"], folder=run / recipe["rankings"])
        data = one_of_several(recipe["data"], data_dir, recipe["n"], recipe["size"])
        return base, Member.of(recipe["member"]).build(probed, recipe["seed"]), data
    scores = Ranking.load(run / RANKING) if recipe["defense"] in MASKED else None
    head = head_for(recipe["defense"], base, run / HEAD)
    data = images_for(recipe["data"], data_dir, recipe["n"], recipe["size"])
    return base, defended(base, scores, recipe, head), data


def defended(
    base: nn.Module, ranking: Ranking | None, recipe: dict[str, Any], head: Head | None
) -> nn.Module:
    """The defense that a recipe names, around its base model."""
    if recipe["defense"] in list(Rival):
        return build_rival(
            Rival(recipe["defense"]), base, recipe["rival"], head, int(recipe["seed"])
        )
    noise = {name: recipe[name] for name in ("sigma", "samples", "seed")}
    if recipe["defense"] == Defense.NONE:
        return base
    if ranking is None:
        return Smoothed(base, **noise)
    temperature = recipe["temperature"]
    return defend(base, ranking, recipe["keep"], temperature=temperature, force=True, **noise)


def ranked(
    base: nn.Module,
    path: Path | None,
    probe: str,
    force: bool,
    encoder: str | None,
    *,
    data_dir: Path | None = None,
    size: int | None = None,
) -> Ranking:
    """The ranking in a file, or one made of the model's usual layer."""
    if path is not None:
        return Ranking.load(path, base, force=force)
    images = images_for(probe, data_dir, None, size)
    check_classes(images, check_model(base, images.images[:2]))
    layer = recommended_layer(base, images.images[:2])
    if layer is None:
        raise SettingError("The penultimate layer is not known: rank it first, --ranking FILE.")
    if encoder is not None:
        return clip_dissect(base, images, layer, encoder=encoder)
    return leave_one_out(base, images, layer)


def others(
    base: nn.Module,
    own: Ranking,
    defense: Defense,
    *,
    given: Path | None,
    kept: Path,
    probe: str,
    encoder: str,
) -> Ranking | str:
    """The ranking that the defense does not use, or why there is none.

    One that was given, or that the same run has kept; otherwise it is made of the probe set: CD-IR
    for LO-IR, LO-IR for CD-IR. Random masks have the one that they shuffle.
    """
    if given is not None or kept.exists():
        return Ranking.load(given or kept, base)
    if defense is Defense.RANDOM:
        return own
    try:
        images = images_for(probe, None, None)
        if defense is Defense.CD_IR:
            return leave_one_out(base, images, own.layer)
        return clip_dissect(base, images, own.layer, encoder=encoder)
    except IGDefenseError as error:
        return f"the other ranking cannot be made: {error}"
