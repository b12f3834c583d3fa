"""A small evaluation to run anywhere."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from igdefense.attacks.apgd import APGD
from igdefense.attacks.rays import RayS
from igdefense.attacks.suites import Column
from igdefense.attacks.threat import Linf
from igdefense.data.data import Data
from igdefense.defenses.smoothing import Smoothed
from igdefense.models.toys import ConvNet
from igdefense.verdicts.evaluate import evaluate
from igdefense.verdicts.run import Run
from running.faults import Troubled

EPS = 0.03


def base() -> nn.Module:
    return ConvNet(classes=4).eval()


def data(net: nn.Module, images: int = 24) -> Data:
    """Images that the net gets right, but for every fourth."""
    x = torch.rand(images, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    labels = net(x).argmax(1)
    labels[::4] = (labels[::4] + 1) % 4
    return Data(x, labels, list("abcd"))


def columns(trouble: Path) -> tuple[Column, ...]:
    threat = Linf(EPS)
    return (
        Column(name="apgd", attack=APGD(threat=threat, steps=5, best="strict"), samples=2),
        Column(name="troubled", attack=Troubled(threat=threat, folder=str(trouble))),
        Column(name="rays", attack=RayS(threat=threat, queries=40), target="base", gradient=False),
    )


def run(out: Path, trouble: Path, **options: Any) -> Run:
    """A random defense of a toy net under three attacks, one of which may meet trouble."""
    net = base()
    given: dict[str, Any] = {"suite": columns(trouble), "eps": EPS, "batch_size": 4, "draws": 2}
    given |= {"base": net, "progress": False}
    return evaluate(Smoothed(net, sigma=0.05), data(net), out=out, **(given | options))


def same(one: Run, other: Run) -> bool:
    """Image by image and draw by draw."""
    return (
        list(one.verdicts) == list(other.verdicts)
        and torch.equal(one.clean.draws, other.clean.draws)
        and torch.equal(one.worst_case.robust, other.worst_case.robust)
        and all(
            torch.equal(verdict.draws, other.verdicts[name].draws)
            and torch.equal(verdict.tested, other.verdicts[name].tested)
            for name, verdict in one.verdicts.items()
        )
    )
