"""SODEF's differential equation, its head and the defense around them."""

import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.testing import assert_close

from igdefense.data.datasets import load_data
from igdefense.defenses.rivals.head import WIDTH, Head, shipped_card, shipped_head
from igdefense.defenses.rivals.ode import SineField, Solver, check_solver, solve
from igdefense.defenses.rivals.sodef import SODEF, features_of, pooled
from igdefense.errors import ModelError, SettingError
from igdefense.models.fingerprint import identity, weights_fingerprint
from igdefense.models.load import load_model
from igdefense.randomness import generator
from igdefense.split import split
from nets import make_net


def points(count: int, width: int) -> Tensor:
    return torch.randn(count, width, generator=generator("points"))


@pytest.mark.parametrize(("solver", "error"), [("rk4", 1e-4), ("dopri5", 2e-2)])
def test_a_linear_equation_ends_at_the_matrix_exponential(solver: Solver, error: float) -> None:
    matrix = torch.tensor([[-0.5, -1.0, 0.0], [1.0, -0.5, 0.0], [0.0, 0.3, -0.2]])
    start = points(5, 3)
    exact = start @ torch.linalg.matrix_exp(5 * matrix).T
    assert_close(solve(lambda z: z @ matrix.T, start, solver), exact, atol=error, rtol=0)


def test_dopri5_takes_every_image_for_itself() -> None:
    field = SineField((3, 3))
    start = points(5, 3) * torch.tensor([1, 1, 1, 1, 100.0])[:, None]  # the last one is harder
    alone = torch.cat([solve(field, row, "dopri5") for row in start.split(1)])
    assert torch.equal(solve(field, start, "dopri5"), alone)


def test_both_solvers_agree_on_the_trained_head() -> None:
    head = shipped_head()
    parts = split(load_model("embedded"), head.layer)
    start = head.projection(features_of(parts, load_data("embedded:test").images[:8]))
    fixed, adaptive = (solve(head.field, start, solver) for solver in ("rk4", "dopri5"))
    assert_close(fixed, adaptive, atol=1e-2, rtol=0)
    assert (fixed - start).abs().max() > 0.1  # and the solution moves


def test_the_field_is_a_chain_of_sines() -> None:
    field, z = SineField((3, 4, 3)), points(5, 3)
    for layer in field.layers:
        assert isinstance(layer, nn.Linear)
        z = torch.sin(-(z @ layer.weight.T) - layer.bias)
    assert_close(field(points(5, 3)), z)


@pytest.mark.parametrize(
    ("shape", "parameters"),
    [
        ("rebuffi", 1024 * 64 + (64 * 64 + 64) + (64 * 10 + 10)),
        (
            "trades",
            (1024 * 2048 + 2048)
            + (2048 * 64 + 64)
            + (64 * 256 + 256)
            + (256 * 256 + 256)
            + (256 * 64 + 64)
            + (64 * 10 + 10),
        ),
    ],
)
def test_the_published_shapes(shape: str, parameters: int) -> None:
    head = Head(1024, 10, shape, layer="", base="")
    assert sum(p.numel() for p in head.parameters()) == parameters
    assert head(points(2, 1024)).shape == (2, 10)


def test_a_fresh_projection_of_rebuffis_shape_is_orthogonal() -> None:
    head = Head(100, 10, layer="", base="").reset(generator("head"))
    assert isinstance(head.projection, nn.Linear)
    weight = head.projection.weight
    assert_close(weight @ weight.T, torch.eye(WIDTH), atol=1e-5, rtol=0)


def test_around_is_the_gradient_of_the_last_layer_at_the_projection() -> None:
    head, features = Head(20, 4, layer="", base="").reset(generator("head")), points(3, 20)
    x = features.clone().requires_grad_()
    logits = head.around(x)
    assert torch.equal(logits, head(features))
    (found,) = torch.autograd.grad(logits[:, 1].sum(), x)
    assert isinstance(head.projection, nn.Linear)
    assert_close(found, (head.last.weight[1] @ head.projection.weight).expand(3, -1))


def test_features_are_means_over_places_and_tokens() -> None:
    four, three, two = torch.rand(2, 5, 3, 3), torch.rand(2, 7, 5), torch.rand(2, 5)
    assert_close(pooled(four), four.mean((2, 3)))
    assert_close(pooled(three), three.mean(1))
    assert pooled(two) is two


@pytest.fixture
def head() -> Head:
    fingerprint = weights_fingerprint(make_net("cnn"))
    return Head(10, 3, layer="last", base=fingerprint, about={"seed": 4}).reset(generator("head"))


def test_a_head_comes_back_from_its_file(head: Head, tmp_path: Path, images: Tensor) -> None:
    head.save(tmp_path / "head.safetensors")
    net = make_net("cnn")
    again = Head.load(tmp_path / "head.safetensors", net)
    assert again.about == {"seed": 4}
    assert identity(SODEF(net, again)) == identity(SODEF(net, head))
    assert torch.equal(SODEF(net, again)(images), SODEF(net, head)(images))


def test_a_head_of_another_base_model_is_refused(head: Head, tmp_path: Path) -> None:
    net = make_net("cnn")
    with torch.no_grad():
        net.get_parameter("fc.bias").add_(1)
    with pytest.raises(ModelError, match=r"trained on a base model with fingerprint .* Train one"):
        SODEF(net, head)
    head.save(tmp_path / "head.safetensors")
    with pytest.raises(ModelError, match="fingerprint"):
        Head.load(tmp_path / "head.safetensors", net)


def test_files_that_are_no_heads_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="There is no SODEF head"):
        Head.load(tmp_path / "absent")
    save_file({"scores": torch.zeros(2)}, tmp_path / "other")
    with pytest.raises(ModelError, match="not a SODEF head of this project"):
        Head.load(tmp_path / "other")
    (tmp_path / "cut").write_bytes(b"cut")
    with pytest.raises(ModelError, match="not a whole SODEF head"):
        Head.load(tmp_path / "cut")


def test_without_the_extra_sodef_says_what_to_install(
    head: Head, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torchdiffeq", None)
    with pytest.raises(SettingError, match=r"pip install 'igdefense\[sodef\]'"):
        SODEF(make_net("cnn"), head)


def test_unknown_shapes_and_solvers_are_refused() -> None:
    with pytest.raises(SettingError, match="expected one of rebuffi, trades"):
        Head(10, 3, "wide", layer="", base="")
    with pytest.raises(SettingError, match="expected rk4 or dopri5"):
        check_solver("euler")


def test_the_shipped_head_is_what_its_card_says() -> None:
    model, test, card = load_model("embedded"), load_data("embedded:test"), shipped_card()
    head = shipped_head(model)
    assert weights_fingerprint(head) == card["fingerprint"]
    assert (card["base"], card["test"]["images"]) == (weights_fingerprint(model), 10_000)
    images, labels = test.images[:200], test.labels[:200]
    with torch.no_grad():
        ours, theirs = SODEF(model, head)(images).argmax(1), model(images).argmax(1)
    assert float((ours == labels).float().mean()) == pytest.approx(card["test"]["clean"], abs=0.08)
    assert float((ours != theirs).float().mean()) == pytest.approx(
        card["test"]["changed"] / 10_000, abs=0.05
    )
