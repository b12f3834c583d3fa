"""What `igd evaluate` judges: a defense from its recipe, now and when a run is looked at again."""

from enum import StrEnum
from pathlib import Path
from typing import Any

from torch import nn

from igdefense.cli.options import channels, check_classes, images_for
from igdefense.cli.rivals import Rival, build_rival, head_for
from igdefense.data.data import Data
from igdefense.defenses.ig_defense import defend
from igdefense.defenses.rivals.head import Head
from igdefense.defenses.smoothing import Smoothed
from igdefense.errors import SettingError
from igdefense.models.check import check_model
from igdefense.models.load import load_model
from igdefense.models.penultimate import recommended_layer
from igdefense.rankings.clip_dissect import clip_dissect
from igdefense.rankings.leave_one_out import leave_one_out
from igdefense.rankings.ranking import Ranking

RANKING, HEAD = "ranking.safetensors", "sodef.safetensors"


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
