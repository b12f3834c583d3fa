"""The whole path at ImageNet's size: 2,048 neurons, 1,000 classes, 1,000 images of 224 x 224.

A ResNet50 with random weights is ranked, the ranking saved and loaded, the model defended and asked
for predictions, in a process of its own (`python -m benchmarks.scale WORK`). The images are of
../shared/data/imagenet-sample (or $IGDEFENSE_SHARED_DATA) where there are any, else drawn ones,
in ImageNet's folders on disk either way: they are decoded as they are needed.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from benchmarks.clock import seconds
from benchmarks.memory import peak
from benchmarks.row import AtMost, Row
from igdefense import Ranking, defend, leave_one_out, load_data, load_defense
from igdefense.models import build

LAYER, CLASSES, IMAGES = "layer4", 1000, 1000
STEPS = ("rank", "save and load the ranking", "save and load the defense", "predict")


def scale() -> list[Row]:
    """One round; the bar is 6 GB at the peak, the times are shown in seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        kind = _write_folders(Path(scratch) / "val")
        command = [sys.executable, "-m", "benchmarks.scale", scratch]
        ran = subprocess.run(command, check=True, capture_output=True, text=True)
    measured = json.loads(ran.stdout)
    what = f"ResNet50, 2,048 neurons, {CLASSES:,} classes, {IMAGES:,} {kind} of 224 x 224"
    return [
        Row.of(f"{what}: peak memory", "1 GB", [measured["peak"] / 2**20], AtMost(6)),
        *(Row.of(f"the same: {step}", "1 s", [measured[step]]) for step in STEPS),
    ]


def _write_folders(folder: Path) -> str:
    """A folder for each class, with an image in it; says what kind."""
    named = os.environ.get("IGDEFENSE_SHARED_DATA")
    beside = [up / "shared" / "data" for up in Path(__file__).parents[2:4]]
    sources = [place / "imagenet-sample" for place in ([Path(named)] if named else beside)]
    found = next((sorted(place.glob("*.jpg")) for place in sources if place.is_dir()), [])
    for number in range(IMAGES):
        name = found[number].name.partition("_")[0] if found else f"n{number:08}"
        (folder / name).mkdir(parents=True)
        path = folder / name / f"{number:08}.jpg"
        if found:
            path.symlink_to(found[number])
            continue
        coarse = np.random.default_rng(number).integers(0, 256, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((320, 256), Image.Resampling.BICUBIC).save(path)
    return "photographs" if found else "drawn images"


def _child(folder: Path) -> dict[str, float]:
    torch.manual_seed(0)
    model = build("resnet50", CLASSES).eval()
    data = load_data("imagenet:val", root=folder)
    times: dict[str, float] = {}
    file, saved = folder / "lo-ir.safetensors", folder / "defended"
    rankings: list[Ranking] = []

    def rank() -> None:
        rankings.append(leave_one_out(model, data, LAYER, batch_size=50, progress=False))

    def round_trip() -> None:
        rankings[0].save(file)
        rankings.append(Ranking.load(file, model))

    def keep() -> None:
        defend(model, rankings[1], keep=750).save(saved)  # the paper's k
        load_defense(saved, model=model)

    @torch.no_grad()
    def predict() -> None:
        defense = load_defense(saved, model=model)
        start = 0
        for images, _ in data.batches(50):
            assert defense(images, keys=range(start, start + len(images))).shape[1] == CLASSES
            start += len(images)

    for step, work in zip(STEPS, (rank, round_trip, keep, predict), strict=True):
        times[step] = seconds(work)
    assert rankings[1].scores.shape == (CLASSES, 2048)
    return {**times, "peak": float(peak())}


if __name__ == "__main__":
    print(json.dumps(_child(Path(sys.argv[1]))))
