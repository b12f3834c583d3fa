"""Which ranking the adversary of `igd evaluate --suite expert` crafts with."""

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from cli.shell import Refused
from igdefense.cli.judged import Defense, others
from igdefense.data.datasets import load_data
from igdefense.rankings.controls import inverted, random_for
from igdefense.rankings.leave_one_out import leave_one_out
from igdefense.rankings.ranking import Ranking
from nets import make_net


@pytest.fixture
def net() -> nn.Module:
    return make_net("cnn")


def found(net: nn.Module, own: Ranking, defense: Defense, **given: Any) -> Ranking | str:
    options: dict[str, Any] = {"given": None, "kept": Path("kept.st"), "probe": "data.npz"}
    return others(net, own, defense, encoder="embedded", **(options | given))


def test_it_is_the_one_given_or_kept_or_made(net: nn.Module, folder: Path) -> None:
    data = load_data("data.npz")
    own = random_for(net, data.images[:2], "last")
    lo_ir = leave_one_out(net, data, "last")
    made = found(net, own, Defense.CD_IR)
    assert isinstance(made, Ranking)
    assert made.fingerprint == lo_ir.fingerprint
    assert found(net, own, Defense.RANDOM) is own
    assert str(found(net, own, Defense.LO_IR)).startswith("the other ranking cannot be made")
    inverted(lo_ir).save("kept.st")
    own.save("given.st")
    for options, wanted in (({}, inverted(lo_ir)), ({"given": Path("given.st")}, own)):
        ranking = found(net, own, Defense.LO_IR, **options)
        assert isinstance(ranking, Ranking)
        assert ranking.fingerprint == wanted.fingerprint


def test_it_is_refused_where_it_would_do_nothing(ranking: str, refused: Refused) -> None:
    end = ("--data", "data.npz", "--other-ranking", ranking, "--out", "run")
    for defense, suite in (("none", "expert"), ("smoothing", "expert"), ("lo-ir", "paper")):
        command = ("evaluate", "shell_nets:cnn", "--defense", defense, "--suite", suite)
        assert "--other-ranking is for masks" in refused(*command, "--keep", 3, *end)
