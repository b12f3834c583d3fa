"""SODEF's training: its regularisers, its phases and what they leave alone."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from igdefense.data.data import Data
from igdefense.defenses.rivals.ode import SineField
from igdefense.defenses.rivals.sodef import SODEF
from igdefense.errors import DataError, SettingError
from igdefense.randomness import generator
from igdefense.training import sodef as training
from igdefense.training.sodef import Phases, far_apart, train_head
from igdefense.training.stability import (
    Stability,
    diagonal_dominance,
    jacobians,
    negative_diagonal,
    rest,
)
from nets import make_net

SHORT = Phases(epochs=(2, 2, 3))


@pytest.fixture
def field() -> SineField:
    field = SineField((4, 4))
    with torch.no_grad():
        for parameter in field.parameters():
            parameter.normal_(generator=generator("field"))
    return field


@pytest.fixture
def points() -> Tensor:
    return torch.randn(6, 4, generator=generator("points"))


def test_the_jacobian_of_one_layer_is_known(field: SineField, points: Tensor) -> None:
    (layer,) = field.layers
    assert isinstance(layer, nn.Linear)
    expected = -torch.cos(layer(points))[:, :, None] * layer.weight
    assert_close(jacobians(field, points), expected)


def test_the_regularisers_are_their_formulas(field: SineField, points: Tensor) -> None:
    slopes, speed = jacobians(field, points).detach(), field(points).detach()
    first, second, third = list[float](), list[float](), list[float]()
    for matrix, f in zip(slopes.tolist(), speed.tolist(), strict=True):
        for i in range(4):
            others = sum(abs(matrix[k][i]) for k in range(4) if k != i)
            first.append(math.exp(matrix[i][i] + 1))
            second.append(math.exp(0.1 * (others - abs(matrix[i][i]) + 1)))
            third.append((50 * abs(f[i])) ** 2)
    means = [sum(values) / len(values) for values in (first, second, third)]
    found = [negative_diagonal(slopes), diagonal_dominance(slopes), rest(speed)]
    assert_close(torch.tensor(means), torch.stack(found))
    published = Stability().loss(field, points, points)
    assert published.item() == pytest.approx(10 * means[0] + 0.1 * means[2], rel=1e-5)
    other = Stability(diagonal=2, dominance=3, rest=5).loss(field, points, points)
    assert other.item() == pytest.approx(2 * means[0] + 3 * means[1] + 5 * means[2], rel=1e-5)


def test_the_loss_teaches_the_parameters_through_the_jacobian(
    field: SineField, points: Tensor
) -> None:
    (layer,) = field.layers
    assert isinstance(layer, nn.Linear)
    Stability(rest=0).loss(field, points, points).backward()
    by_hand = torch.diagonal(-torch.cos(layer(points))[:, :, None] * layer.weight, dim1=1, dim2=2)
    (expected,) = torch.autograd.grad(10 * (by_hand + 1).exp().mean(), layer.weight)
    assert layer.weight.grad is not None
    assert_close(layer.weight.grad, expected)


@pytest.mark.parametrize("classes", [2, 10, 65])
def test_rows_are_a_regular_simplex_where_it_fits(classes: int) -> None:
    rows = far_apart(classes, 64, generator("rows"))
    expected = torch.full((classes, classes), -1 / (classes - 1)).fill_diagonal_(1)
    assert_close(rows @ rows.T, expected, atol=1e-5, rtol=0)


def test_more_classes_than_a_simplex_holds_get_unit_rows() -> None:
    rows = far_apart(1000, 64, generator("rows"))
    assert_close(rows.norm(dim=1), torch.ones(1000))
    assert (rows @ rows.T).fill_diagonal_(0).max() < 0.7


@pytest.fixture
def shades() -> Data:
    """Dark, grey and bright images with a little noise: three classes that features tell apart."""
    labels = torch.arange(120) % 3
    noise = 0.1 * torch.rand(120, 3, 8, 8, generator=generator("noise"))
    return Data(0.1 + 0.4 * labels.view(-1, 1, 1, 1) * torch.ones(3, 8, 8) + noise, labels)


@pytest.mark.parametrize("shape", ["rebuffi", "trades"])
def test_a_head_learns_classes_that_the_features_tell_apart(shades: Data, shape: str) -> None:
    net = make_net("cnn")
    phases = Phases(epochs=(3, 2, 60))
    head, records = train_head(net, shades, layer="last", shape=shape, phases=phases)
    assert [(r["phase"], r["epoch"]) for r in records[:6]] == [
        *((1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1))
    ]
    accuracy = SODEF(net, head)(shades.images[:]).argmax(1) == shades.labels
    assert accuracy.float().mean() > 0.9


def test_the_base_model_is_left_as_it_was(shades: Data) -> None:
    net = make_net("resnet")
    before = {name: value.clone() for name, value in net.state_dict().items()}
    train_head(net, shades, layer="layer4", phases=SHORT)
    assert not any(module.training for module in net.modules())
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())


def test_the_projection_stays_orthogonal(shades: Data) -> None:
    head, _ = train_head(make_net("resnet"), shades, layer="layer4", phases=SHORT)
    assert isinstance(head.projection, nn.Linear)
    weight = head.projection.weight  # 64 rows for 16 features, so its columns are orthonormal
    assert_close(weight.T @ weight, torch.eye(head.features), atol=1e-4, rtol=0)


def test_a_training_depends_on_its_seed_alone(shades: Data) -> None:
    net = make_net("cnn")
    one, again, other = (
        train_head(net, shades, layer="last", phases=SHORT, seed=seed)[0].state_dict()
        for seed in (1, 1, 2)
    )
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not torch.equal(one["last.weight"], other["last.weight"])


def test_the_epoch_that_does_best_on_what_is_held_out_is_kept() -> None:
    module = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        module.weight.fill_(0)
    part = training._Part(torch.ones(4, 1), torch.zeros(4), torch.ones(1, 1), torch.zeros(1))
    scores = iter([0.5, 0.8, 0.6])

    def loss(z: Tensor, _: Tensor, __: torch.Generator) -> Tensor:
        return module(z).mean()  # each epoch is one step of -1

    steps = torch.optim.SGD(module.parameters(), lr=1)
    held = lambda *_: next(scores)  # noqa: E731
    records = training._fit(1, module, steps, part, loss, held, 3, 4, generator(0))
    assert module.weight.item() == -2
    assert [record["held out"] for record in records] == [0.5, 0.8, 0.6]


def test_held_out_images_are_not_trained_on(shades: Data) -> None:
    part = training._features(make_net("cnn"), shades, "last", 0.25, 0, False)
    assert (len(part.train), len(part.held)) == (90, 30)
    assert not {tuple(row) for row in part.train.tolist()} & {
        tuple(row) for row in part.held.tolist()
    }


def test_settings_and_data_that_cannot_be_trained_on_are_refused(shades: Data) -> None:
    with pytest.raises(SettingError, match="three numbers of at least 1"):
        Phases(epochs=(1, 0, 1))
    with pytest.raises(SettingError, match="held_out = 1;"):
        Phases(held_out=1)
    with pytest.raises(DataError, match="at least 2"):
        train_head(make_net("cnn"), shades[:1], layer="last")
