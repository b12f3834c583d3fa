"""An attack of your own among the columns of an evaluation; docs/add-an-attack.md explains it."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Generator, nn

import igdefense as igd
from igdefense.attacks import APGD, Linf, Threat, View
from igdefense.attacks.suites import Column
from igdefense.randomness import Streams
from igdefense.types import Images, Labels


@dataclass(frozen=True, kw_only=True)
class Nudge:
    """A random point of the ball: what an adversary without any knowledge can do."""

    version: ClassVar[int] = 1
    threat: Threat

    def __call__(
        self, view: View | nn.Module, images: Images, labels: Labels, rng: Generator | Streams
    ) -> Images:
        return self.threat.random(images, Streams.of(rng, len(images)).child("nudge"))


model, threat = igd.load_model("embedded"), Linf(8 / 255)
columns = [
    Column(name="nudge", attack=Nudge(threat=threat), gradient=False),
    Column(name="apgd", attack=APGD(threat=threat, steps=5)),
]
data = igd.load_data("embedded:test", n=8)
print(igd.evaluate(model, data, suite=columns, out="runs/nudge").table())
