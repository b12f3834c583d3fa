"""The gallery: every image clean and attacked, and what the defense made of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from igdefense.attacks.views import Keyed
from igdefense.defenses.ig_defense import IGDefense
from igdefense.progress import track
from igdefense.rankings.maps import averages
from igdefense.report.exhibit import Exhibit
from igdefense.report.sprite import Sprite
from igdefense.split import activations_of, split
from igdefense.types import Images, Labels
from igdefense.verdicts.judge import judging_seeds, predict
from igdefense.verdicts.store import image_ids

SURVIVED, BROKEN, WRONG, SKIPPED = "survived", "broken", "wrong when clean", "not attacked"
OUTCOMES = (SURVIVED, BROKEN, WRONG, SKIPPED)
NEURONS = 4  # of the true class, and as many of the class that the attack led to
BATCH = 64


@dataclass(frozen=True)
class Gallery:
    """Plain data for the page's script, and the pictures it refers to by number."""

    content: dict[str, Any]
    sprites: tuple[Sprite, ...]


def gallery(
    exhibits: Sequence[Exhibit], most: int = 200, progress: bool | None = None
) -> Gallery | None:
    """The first `most` images of the runs whose data, defense and adversarial images are there."""
    usable = [e for e in exhibits if e.data is not None and e.defense is not None and e.folder]
    data = next((e.data for e in usable if e.data is not None), None)
    if data is None or most < 1:
        return None
    part = data[:most]
    images, labels = part.images[:], part.labels
    album = Album(images)
    shown = [_run(e, images, labels, album) for e in track(usable, "gallery", progress)]
    content = {
        "classes": list(data.class_names),
        "labels": labels.tolist(),
        "outcomes": OUTCOMES,
        "amplified": round(album.amplified(usable[0].eps), 1),
        "runs": shown,
    }
    return Gallery(content, tuple(album.sprites))


class Album:
    """Sprites that are made once, though several runs show the same images; the first is clean."""

    def __init__(self, images: Images) -> None:
        self.images = images
        self.sprites = [Sprite.of(images)]
        self._found: dict[tuple[object, ...], tuple[int, int]] = {}

    @staticmethod
    def amplified(eps: float) -> float:
        """The factor at which a change of eps goes from grey to black or white."""
        return 0.5 / eps

    def add(self, unit: str, positions: Tensor, x: Images, eps: float) -> tuple[int, int]:
        """The numbers of the sprites of these adversarial images and of their perturbations."""
        key = (unit, *positions.tolist())
        if key not in self._found:
            delta = self.amplified(eps) * (x - self.images[positions]) + 0.5
            self._found[key] = (len(self.sprites), len(self.sprites) + 1)
            self.sprites += [Sprite.of(x), Sprite.of(delta)]
        return self._found[key]


def _run(exhibit: Exhibit, images: Images, labels: Labels, album: Album) -> dict[str, Any]:
    assert exhibit.defense is not None
    ids = image_ids(images, labels)
    looks = _Looks(exhibit, labels, ids)
    everyone = torch.arange(len(images))
    attacks: list[dict[str, Any]] = []
    for name, verdict in exhibit.verdicts:
        saved = exhibit.saved(name)
        if saved is None:
            continue
        inside = saved[0] < len(images)
        positions, x = saved[0][inside], saved[1][inside]
        unit = str(exhibit.column(name).get("unit", f"{exhibit.name}/{name}"))
        sprites = album.add(unit, positions, x, exhibit.eps) if len(positions) else (0, 0)
        attacks.append(
            {
                "name": name,
                "sees": exhibit.column(name).get("sees", ""),
                "sprites": sprites,
                "tiles": _places(positions, len(images)),
                "sizes": _sizes(x, images[positions]),
                "outcomes": _outcomes(exhibit, verdict.robust, verdict.tested, len(images)),
                **looks.at(x, positions, images[positions]),
            }
        )
    return {
        "name": exhibit.name,
        "guided": exhibit.guided is not None,
        "keep": exhibit.guided.keep if exhibit.guided else None,
        "clean": looks.at(images, everyone, images, neurons=False),
        "attacks": attacks,
        "decisive": _decisive(attacks, len(images)),
    }


class _Looks:
    """What a defense says on the draws it was judged on."""

    def __init__(self, exhibit: Exhibit, labels: Labels, ids: list[str]) -> None:
        assert exhibit.defense is not None
        self.defense, self.guided = exhibit.defense, exhibit.guided
        self.seed, self.labels, self.ids = int(exhibit.run.settings["seed"]), labels, ids

    def at(
        self, x: Images, positions: Tensor, clean: Images, *, neurons: bool = True
    ) -> dict[str, Any]:
        """Predictions, pseudo-labels and neurons, one for each of the positions."""
        found: dict[str, list[Any]] = {"predictions": [], "guesses": [], "neurons": []}
        for start in range(0, len(positions), BATCH):
            here = positions[start : start + BATCH]
            batch, before = x[start : start + BATCH], clean[start : start + BATCH]
            ids = [self.ids[i] for i in here.tolist()]
            predictions = predict(self.defense, batch, ids, self.seed)
            found["predictions"] += predictions.tolist()
            if self.guided is None:
                continue
            guess = _pseudo_label(self.guided, batch, ids, self.seed)
            found["guesses"] += guess.argmax(1).tolist()
            if neurons:
                found["neurons"] += _neurons(
                    self.guided, before, batch, guess, self.labels[here], predictions
                )
        return found


@torch.no_grad()
def _pseudo_label(defense: IGDefense, x: Images, ids: list[str], seed: int) -> Tensor:
    """On the draw that judged the image."""
    keys = Keyed(defense, judging_seeds(seed, ids)).keys()
    return defense.pseudo_label(x, keys)


@torch.no_grad()
def _neurons(
    defense: IGDefense, clean: Images, x: Images, guess: Tensor, labels: Labels, predictions: Tensor
) -> list[dict[str, Any]]:
    """The top neurons of the true class and of the one the attack led to, in three states."""
    parts = split(defense.model, defense.ranking.layer)
    before = averages(activations_of(parts.before(clean)))
    after = averages(activations_of(parts.before(x)))
    masked = after * (guess @ defense.masks.to(guess))
    order = defense.ranking.order
    rows = []
    for i, (label, prediction) in enumerate(
        zip(labels.tolist(), predictions.tolist(), strict=True)
    ):
        led_to = prediction if prediction != label else int(guess[i].argmax())
        chosen = order[label, :NEURONS].tolist()
        if led_to != label:
            chosen += [n for n in order[led_to].tolist() if n not in chosen][:NEURONS]
        else:
            chosen = order[label, : 2 * NEURONS].tolist()
        values = {"clean": before, "attacked": after, "masked": masked}
        rows.append(
            {"neurons": chosen, "led_to": led_to}
            | {
                name: [_short(v) for v in level[i, chosen].tolist()]
                for name, level in values.items()
            }
        )
    return rows


def _outcomes(exhibit: Exhibit, robust: Tensor, tested: Tensor, count: int) -> list[int]:
    """Numbers into OUTCOMES."""
    right = exhibit.run.clean.robust
    names = [
        WRONG if not right[i] else SKIPPED if not tested[i] else SURVIVED if robust[i] else BROKEN
        for i in range(count)
    ]
    return [OUTCOMES.index(name) for name in names]


def _places(positions: Tensor, count: int) -> list[int]:
    """For each image, its tile; -1 where it was not attacked."""
    places = [-1] * count
    for tile, position in enumerate(positions.tolist()):
        places[position] = tile
    return places


def _sizes(x: Images, clean: Images) -> list[float]:
    """The largest change of a pixel, in 1/255."""
    return [round(255 * float(v), 2) for v in (x - clean).flatten(1).abs().amax(1)]


def _decisive(attacks: list[dict[str, Any]], count: int) -> list[int]:
    """For each image, the first attack that broke it, else the one that changed it most."""
    broken = OUTCOMES.index(BROKEN)
    chosen = []
    for i in range(count):
        met = [n for n, attack in enumerate(attacks) if attack["tiles"][i] >= 0]
        fell = [n for n in met if attacks[n]["outcomes"][i] == broken]
        largest = max(met, key=lambda n: attacks[n]["sizes"][attacks[n]["tiles"][i]], default=-1)
        chosen.append(fell[0] if fell else largest)
    return chosen


def _short(value: float) -> float:
    return float(f"{value:.3g}")
