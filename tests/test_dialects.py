"""Other packages take a defense as it is: their examples run, and stay short."""

import runpy
import warnings
from pathlib import Path

import pytest
import torch

from igdefense import IGDefense, Ranking
from nets import make_net

EXAMPLES = Path(__file__).parents[1] / "examples"
NEEDS = {
    "with_autoattack": "pyautoattack",
    "with_foolbox": "foolbox",
    "with_art": "art",
    "with_torchattacks": "torchattacks",
    "with_captum": "captum",
}
SLOW = ("with_art",)  # to import


def importable(package: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # their own affair
        pytest.importorskip(package, exc_type=ImportError)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in NEEDS]
)
def test_the_package_takes_a_defense(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    importable(NEEDS[name])
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    assert isinstance(found["defense"], IGDefense)
    assert "%" in (said := capsys.readouterr().out) or " of 4 " in said


@pytest.mark.parametrize("name", NEEDS)
def test_its_example_is_short(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 40


@pytest.mark.parametrize("sigma", [0.0, 0.1])
def test_who_watches_a_layer_last_sees_a_row_for_each_image(sigma: float) -> None:
    net, images = make_net("cnn"), torch.rand(4, 3, 8, 8)
    rows: list[int] = []
    ranking = Ranking("last", torch.rand(3, 10))
    defense = IGDefense(net, ranking, 5, sigma=sigma, samples=3)
    unwatched = defense(images, keys=range(4))
    net.get_submodule("last").register_forward_hook(lambda _, __, out: rows.append(len(out)))
    watched = defense(images, keys=range(4))
    assert rows[-1] == 4
    torch.testing.assert_close(watched, unwatched, rtol=1e-5, atol=1e-6)
