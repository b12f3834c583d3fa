"""Rivals under evaluation: how they are differentiated is written down, batches change nothing."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from igdefense.data.data import Data
from igdefense.defenses.rivals.anti_adversary import AntiAdversary
from igdefense.defenses.rivals.head import Head
from igdefense.defenses.rivals.hedge import Hedge
from igdefense.defenses.rivals.sodef import SODEF
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.models.toys import ConvNet
from igdefense.randomness import generator
from igdefense.verdicts.evaluate import evaluate
from igdefense.verdicts.run import Run
from igdefense.verdicts.verify import verify

BUDGET = {
    "steps": 1,
    "targets": 1,
    "fab_steps": 1,
    "square_queries": 2,
    "rays_queries": 2,
    "eot": 1,
}


def sodef(net: nn.Module) -> SODEF:
    head = Head(12, 4, layer="2", base=weights_fingerprint(net)).reset(generator("head"))
    return SODEF(net, head, gradient="around")


RIVALS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "hedge": lambda net: Hedge(net, steps=2),
    "anti-adversary": lambda net: AntiAdversary(net, steps=1, step=0.01, gradient="through"),
    "sodef": sodef,
}


@pytest.fixture(scope="module")
def net() -> nn.Module:
    return ConvNet(channels=3, classes=4, width=6, seed=0).eval()


@pytest.fixture(scope="module")
def data(net: nn.Module) -> Data:
    images = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(3))
    return Data(images, net(images).argmax(1), ["a", "b", "c", "d"])


def run(
    defense: nn.Module, net: nn.Module, data: Data, out: Path, size: int, suite: str = "quick"
) -> Run:
    given = {"suite": suite, "eps": 0.02, "budget": BUDGET, "progress": False}
    return evaluate(defense, data, base=net, out=out, batch_size=size, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", RIVALS)
def test_a_rivals_verdicts_do_not_depend_on_the_batch_and_verify(
    name: str, net: nn.Module, data: Data, tmp_path: Path
) -> None:
    defense = RIVALS[name](net)
    one = run(defense, net, data, tmp_path / "a" / "run", 6, "autoattack-rand")
    two = run(defense, net, data, tmp_path / "b" / "run", 4, "autoattack-rand")
    for column, verdict in one.verdicts.items():
        assert torch.equal(verdict.robust, two.verdicts[column].robust), column
    assert verify(tmp_path / "b" / "run", defense, data) == []


def test_the_result_says_which_gradients_each_column_followed(
    net: nn.Module, data: Data, tmp_path: Path
) -> None:
    for way, defense in (("through", RIVALS["anti-adversary"](net)), ("own", net)):
        result = run(defense, net, data[:3], tmp_path / way / "run", 3)
        record = json.loads((tmp_path / way / "run" / "results.json").read_text())
        written = record["settings"]["gradients"]
        assert written["autoattack"] == written["apgd-eot"] == way
        assert written["rays"] == written["transfer-rays"] == "none"
        assert written["transfer-autoattack"] == "the base model's (transfer)"
        said = "gradients through the inner loop" in result.table().splitlines()[0]
        assert said == (way == "through")
