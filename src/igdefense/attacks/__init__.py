"""Attacks: values with one call, `attack(view, images, labels, rng)`."""

from igdefense.attacks.apgd import APGD, TargetedAPGD
from igdefense.attacks.attack import Attack
from igdefense.attacks.auto_attack import AutoAttack
from igdefense.attacks.fab import FABT
from igdefense.attacks.pgd import FGSM, GAMA, PGD
from igdefense.attacks.rays import RayS
from igdefense.attacks.square import Square
from igdefense.attacks.threat import L2, Linf, Threat
from igdefense.attacks.views import Direct, EoT, Keyed, View, as_view

__all__ = [
    "APGD",
    "FABT",
    "FGSM",
    "GAMA",
    "L2",
    "PGD",
    "Attack",
    "AutoAttack",
    "Direct",
    "EoT",
    "Keyed",
    "Linf",
    "RayS",
    "Square",
    "TargetedAPGD",
    "Threat",
    "View",
    "as_view",
]
