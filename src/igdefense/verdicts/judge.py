"""Judge what is deployed: attack a view, check the budget, predict again."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor, nn

from igdefense.attacks.attack import Attack
from igdefense.attacks.views import Direct, EoT, Keyed, View
from igdefense.errors import IGDefenseError, ModelError
from igdefense.randomness import Streams, seed_of
from igdefense.types import Images, Labels, Logits, Outcomes


class BudgetError(IGDefenseError):
    """An attack that broke its own rules: its images are not counted."""


def is_random(model: nn.Module) -> bool:
    """Whether it draws noise that can be keyed by image: `forward(images, keys)`."""
    return bool(getattr(model, "random", False))


def view_of(model: nn.Module, rng: Streams, samples: int = 1) -> View:
    """A model as an adversary sees it; a deterministic one is asked once a step."""
    if not is_random(model):
        return Direct(model)
    return EoT(Keyed(model, rng), samples) if samples > 1 else Keyed(model, rng)


def attack_seeds(seed: int, ids: Sequence[str], attack: Attack) -> Streams:
    """What chance an image is dealt by an attack: its own seed, whatever the batch."""
    return Streams([seed_of(seed, name, repr(attack)) for name in ids])


def judging_seeds(seed: int, ids: Sequence[str], draw: int = 0) -> Streams:
    """What chance an image is dealt when it is judged: draw 0, or one of the fresh draws."""
    extra = (draw,) if draw else ()
    return Streams([seed_of(seed, name, "judge", *extra) for name in ids])


def predict(model: nn.Module, x: Images, ids: Sequence[str], seed: int, draw: int = 0) -> Tensor:
    """The deployed defense's predictions, on draws kept for judging and the same for every x."""
    return logits_of(model, x, ids, seed, draw).argmax(1)


@torch.no_grad()
def logits_of(model: nn.Module, x: Images, ids: Sequence[str], seed: int, draw: int = 0) -> Logits:
    """The deployed defense's logits on those draws."""
    logits = view_of(model, judging_seeds(seed, ids, draw))(x)
    if not torch.isfinite(logits).all():
        raise ModelError("The defense returned NaN or infinite logits; check its weights.")
    return logits


def predict_draws(
    model: nn.Module, x: Images, ids: Sequence[str], seed: int, draws: int
) -> Int[Tensor, "images draws"]:
    """Draw 0 and, of a random defense, so many fresh draws: one forward pass each."""
    fresh = draws if is_random(model) else 0
    return torch.stack([predict(model, x, ids, seed, draw) for draw in range(fresh + 1)], dim=1)


def judge(
    defense: nn.Module,
    attack: Attack,
    x: Images,
    images: Images,
    labels: Labels,
    ids: Sequence[str],
    seed: int,
) -> Outcomes:
    """Which attacked images are still right; the clean ones are judged on the same draws."""
    check_budget(attack, x, images)
    return predict(defense, x, ids, seed) == labels


def check_budget(attack: Attack, x: Images, images: Images) -> None:
    """Trust no attack: every image must be inside its threat model and [0, 1]."""
    if x.shape != images.shape:
        raise BudgetError(f"{attack!r} returned {tuple(x.shape)} for {tuple(images.shape)}.")
    if not torch.isfinite(x).all() or not attack.threat.contains(x, images).all():
        raise BudgetError(f"{attack!r} returned images outside {attack.threat!r}.")
