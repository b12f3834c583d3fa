from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from igdefense.data.data import Data
from igdefense.defenses.smoothing import Smoothed
from igdefense.models.toys import ConvNet, LinearNet
from igdefense.verdicts.evaluate import evaluate
from igdefense.verdicts.run import Run

BUDGET = {"steps": 5, "fab_steps": 3, "square_queries": 20, "rays_queries": 300}


def judged(defense: nn.Module, base: nn.Module, tmp_path: Path, eps: float = 0.02) -> Run:
    images = torch.rand(12, 3, 8, 8, generator=torch.Generator().manual_seed(2)) * 0.6 + 0.2
    data = Data(images, base(images).argmax(1), [str(c) for c in range(base(images).shape[1])])
    return evaluate(
        defense, data, base=base, suite="quick", eps=eps, budget=BUDGET, out=tmp_path / "run"
    )


def notes(run: Run) -> str:
    return " ".join(run.footnotes)


def test_a_plain_model_has_no_footnotes(tmp_path: Path) -> None:
    net = LinearNet(classes=3)
    assert judged(net.eval(), net, tmp_path).footnotes == []


def test_randomness_before_attacks_that_do_not_average_is_told(tmp_path: Path) -> None:
    net = ConvNet(classes=3).eval()
    run = judged(Smoothed(net, sigma=0.05), net, tmp_path)
    assert "draws noise, and autoattack, rays judge each point by a single draw" in notes(run)
    assert "draws noise" in run.table()


class Shaky(nn.Module):
    """Random, and silent about it."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, images: Tensor) -> Tensor:
        return self.net(images + 0.1 * torch.rand_like(images))


def test_randomness_that_is_not_declared_is_told(tmp_path: Path) -> None:
    net = ConvNet(classes=3).eval()
    assert "Two calls on the same images" in notes(judged(Shaky(net).eval(), net, tmp_path))


class Quantised(nn.Module):
    """Rounds its input: right or wrong as before, but without any gradient."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, images: Tensor) -> Tensor:
        return self.net((images * 255).round() / 255 + 0 * images)


def test_zero_gradients_are_counted_and_the_black_box_shows_what_they_hide(tmp_path: Path) -> None:
    net = LinearNet(classes=3).eval()
    run = judged(Quantised(net).eval(), net, tmp_path, eps=0.1)
    assert "exactly zero on 12 of 12 images" in notes(run)
    assert "images that every gradient attack" in notes(run)
    assert "survive APGD at eps = 0.5" in notes(run)


class Softmax(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, images: Tensor) -> Tensor:
        return self.net(images).softmax(1)


def test_probabilities_instead_of_logits_are_told(tmp_path: Path) -> None:
    net = ConvNet(classes=4).eval()
    assert "probabilities, not logits" in notes(judged(Softmax(net).eval(), net, tmp_path))


def test_a_linear_classifiers_robust_accuracy_is_its_margin(tmp_path: Path) -> None:
    net = LinearNet(classes=4).eval()
    images = torch.rand(30, 3, 8, 8, generator=torch.Generator().manual_seed(8)) * 0.6 + 0.2
    labels = net(images).argmax(1)
    data = Data(images, labels, ["a", "b", "c", "d"])
    radius = net.linf_radius(images, labels)
    eps = float(radius.median())
    budget = {"steps": 20, "rays_queries": 2000, "square_queries": 20, "fab_steps": 5, "eot": 1}
    run = evaluate(net, data, base=net, suite="paper", eps=eps, budget=budget, out=tmp_path / "run")
    clear = (radius - eps).abs() > 0.02 * eps  # a float's breadth from the boundary says nothing
    assert torch.equal(run.worst_case.robust[clear], (radius > eps)[clear])


@pytest.mark.parametrize("classes", [2, 3])
def test_two_and_three_classes_are_evaluated(tmp_path: Path, classes: int) -> None:
    net = LinearNet(classes=classes).eval()
    assert 0 <= judged(net, net, tmp_path).worst_case.share.value <= 1
