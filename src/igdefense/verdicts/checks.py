"""Signs that an evaluation says less than it seems, in words for the table's footnotes."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from igdefense.attacks.apgd import APGD
from igdefense.attacks.objective import gradient_of
from igdefense.attacks.suites import Column
from igdefense.attacks.threat import Linf
from igdefense.types import Images, Labels
from igdefense.verdicts.diagnostics import diagnose
from igdefense.verdicts.judge import attack_seeds, is_random, predict, view_of
from igdefense.verdicts.units import Setting
from igdefense.verdicts.verdict import Verdict

SOME = 32  # images looked at
HUGE = 0.5  # an eps that should leave nothing standing
NEAR_ZERO = 0.05


def inspect(
    setting: Setting, verdicts: dict[str, Verdict], clean: Verdict, ids: list[str]
) -> tuple[list[str], dict[str, Any]]:
    """Footnotes, and the numbers behind them."""
    part = setting.data[:SOME]
    images, labels, names = part.images[:], part.labels, ids[:SOME]
    checks: dict[str, Any] = {
        "images": len(labels),
        "differs between two calls": _differs(setting, images),
        "outputs are probabilities": _probabilities(setting, images),
        "images without gradient": _without_gradient(setting, images, labels, names),
        "robust at huge eps": _at_huge_eps(setting, images, labels, names),
        "broken by black box only": _black_box_only(setting.columns, verdicts, clean),
    }
    checks["diagnostics"] = diagnose(setting.defense, images, labels, names, setting.seed)
    return _in_words(setting, checks), checks


def _in_words(setting: Setting, checks: dict[str, Any]) -> list[str]:
    notes, seen = [], checks["images"]
    if is_random(setting.defense):
        single = [
            c.name
            for c in setting.columns
            if c.target == "defense" and c.samples == 1 and getattr(c.attack, "votes", 1) == 1
        ]
        if single:
            notes.append(
                f"The defense draws noise, and {', '.join(single)} judge each point by a single "
                "draw, as attacks on deterministic models do: these columns are too high."
            )
    elif checks["differs between two calls"]:
        notes.append(
            "Two calls on the same images gave different logits, though the defense does not say "
            "that it is random (an attribute `random` and `forward(images, keys)`): attacks took "
            "it for deterministic, and the verdicts cannot be repeated."
        )
    if checks["outputs are probabilities"]:
        notes.append(
            "The outputs are probabilities, not logits: losses that need logits are flat there. "
            "Return the logits."
        )
    if checks["images without gradient"]:
        notes.append(
            f"The gradient is exactly zero on {checks['images without gradient']} of {seen} "
            "images: gradient attacks are blind there."
        )
    if checks["broken by black box only"]:
        notes.append(
            f"The black box broke {checks['broken by black box only']} images that every gradient "
            "attack on the same target left standing: the gradients are poor, so the accuracy is "
            "too high."
        )
    share = checks["robust at huge eps"]
    if share > NEAR_ZERO:
        notes.append(
            f"{share:.0%} of {seen} images survive APGD at eps = {HUGE:g}, where nothing should: "
            "the gradients do not lead to the weak spots there are."
        )
    return notes


@torch.no_grad()
def _differs(setting: Setting, images: Images) -> bool:
    return not torch.allclose(setting.defense(images), setting.defense(images))


@torch.no_grad()
def _probabilities(setting: Setting, images: Images) -> bool:
    logits: Tensor = setting.defense(images)
    sums = logits.double().sum(1)
    return bool((logits >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-3)


def _without_gradient(setting: Setting, images: Images, labels: Labels, ids: list[str]) -> int:
    x = images.clone().requires_grad_()
    view = view_of(setting.defense, attack_seeds(setting.seed, ids, _huge()).child("gradient"))
    losses = F.cross_entropy(view(x), labels, reduction="none")
    return int((gradient_of(losses, x).flatten(1) == 0).all(1).sum())


def _at_huge_eps(setting: Setting, images: Images, labels: Labels, ids: list[str]) -> float:
    rng = attack_seeds(setting.seed, ids, _huge())
    x = _huge()(view_of(setting.defense, rng.child("view")), images, labels, rng=rng)
    return float((predict(setting.defense, x, ids, setting.seed) == labels).float().mean())


def _huge() -> APGD:
    return APGD(threat=Linf(HUGE), loss="ce", steps=20, best="highest")


def _black_box_only(
    columns: tuple[Column, ...], verdicts: dict[str, Verdict], clean: Verdict
) -> int:
    count = 0
    for target in ("defense", "base"):
        seen = [c for c in columns if c.target == target]
        blind = [verdicts[c.name] for c in seen if not c.gradient]
        guided = [verdicts[c.name] for c in seen if c.gradient]
        if not blind or not guided:
            continue
        standing = clean.robust.clone()
        for verdict in guided:
            standing &= verdict.robust | ~verdict.tested
        for verdict in blind:
            count += int((standing & verdict.tested & ~verdict.robust).sum())
    return count
