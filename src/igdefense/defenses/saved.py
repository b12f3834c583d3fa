"""A defense as a folder: settings, ranking and weights, all plain data."""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from igdefense import __version__
from igdefense.errors import ModelError, OutputError
from igdefense.files import written_whole
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.models.load import rebuild
from igdefense.models.origin import origin_of
from igdefense.rankings.ranking import Ranking

FORMAT = "igdefense-defense-1"
SETTINGS, RANKING, WEIGHTS = "defense.json", "ranking.safetensors", "model.safetensors"


def write_folder(
    folder: Path, model: nn.Module, ranking: Ranking, settings: dict[str, Any], kind: str
) -> None:
    """`defense.json`, the ranking and the base model's weights; the first is written last."""
    record = {
        "format": FORMAT,
        "version": __version__,
        "kind": kind,
        "settings": settings,
        "model": {"fingerprint": weights_fingerprint(model), "origin": origin_of(model)},
    }
    weights = {name: value.clone().contiguous() for name, value in model.state_dict().items()}
    ranking.save(folder / RANKING)
    with written_whole(folder / WEIGHTS) as part:
        save_file(weights, part)
    with written_whole(folder / SETTINGS) as part:
        part.write_text(json.dumps(record, indent=2) + "\n")


def read_folder(
    folder: Path, model: nn.Module | None
) -> tuple[nn.Module, Ranking, dict[str, Any], str]:
    """What `write_folder` wrote; the model is built again unless it is given."""
    try:
        record: dict[str, Any] = json.loads((folder / SETTINGS).read_text())
    except (OSError, ValueError) as error:
        raise OutputError(f"{folder} does not hold a saved defense ({error}).") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise OutputError(f"{folder / SETTINGS} is not a defense saved by this project.")
    try:
        settings, origin = dict(record["settings"]), record["model"]["origin"]
    except (KeyError, TypeError, ValueError) as error:
        raise OutputError(f"{folder / SETTINGS} is not whole: {error} is missing.") from error
    if model is None:
        if origin is None:
            raise ModelError(
                f"The base model of {folder} was made in Python, so it cannot be built from the "
                "folder alone: pass it, load_defense(folder, model=...)."
            )
        try:
            weights = load_file(folder / WEIGHTS)
        except (SafetensorError, OSError) as error:
            raise OutputError(f"{folder / WEIGHTS} is damaged ({error}).") from error
        model = rebuild(origin, weights)
    return model, Ranking.load(folder / RANKING), settings, record.get("kind", "IGDefense")
