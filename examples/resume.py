"""Interrupt an evaluation and go on: the same call picks up what is finished."""

from pathlib import Path
from typing import Any

import igdefense as igd
from igdefense.attacks import APGD, Linf
from igdefense.attacks.suites import Column
from igdefense.types import Images


class Interrupted(APGD):
    """Ends as if by Ctrl-C when it is called for the first time."""

    def __call__(self, *given: Any, **named: Any) -> Images:
        if not Path("pressed").exists():
            Path("pressed").touch()
            raise KeyboardInterrupt
        return super().__call__(*given, **named)


def evaluation() -> igd.Run:
    model, threat = igd.load_model("embedded"), Linf(8 / 255)
    columns = [
        Column(name="first", attack=APGD(threat=threat, steps=10)),
        Column(name="second", attack=Interrupted(threat=threat, steps=5)),
    ]
    return igd.evaluate(model, igd.load_data("embedded:test", n=4), suite=columns, out="runs/one")


try:
    evaluation()
except KeyboardInterrupt:
    print("Interrupted in the second column; the first is in runs/.store.")
run = evaluation()
print(run.table())
assert run.seconds["first"] == 0  # not attacked again: its images were in the store
assert run.seconds["second"] > 0
