import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from igdefense.defenses.ig_defense import IGDefense
from igdefense.models.architectures import build
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.models.folded import folded, quicker
from igdefense.randomness import generator
from igdefense.rankings.controls import random_ranking


def lived_in(model: nn.Module) -> nn.Module:
    """With batch norms that do something."""
    rng = generator("folded")
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            for name in ("weight", "running_var"):
                getattr(module, name).data.uniform_(0.5, 2, generator=rng)
            for name in ("bias", "running_mean"):
                getattr(module, name).data.normal_(0, 0.3, generator=rng)
    return model.eval()


@pytest.fixture
def images() -> Tensor:
    return torch.rand(3, 3, 32, 32, generator=generator("images"))


def norms(model: nn.Module) -> int:
    return sum(isinstance(module, nn.BatchNorm2d) for module in model.modules())


@pytest.mark.parametrize(
    ("arch", "left"), [("resnet18-w4", 0), ("preact-resnet18-w4", 9), ("wrn-10-1", 4)]
)
def test_the_copy_has_the_logits_and_gradients_of_the_model(
    arch: str, left: int, images: Tensor
) -> None:
    model = lived_in(build(arch, 10))
    before = weights_fingerprint(model)
    copy = folded(model)
    assert norms(copy) == left < norms(model)  # those that no convolution precedes
    x, z = images.clone().requires_grad_(), images.clone().requires_grad_()
    mine, theirs = model(x), copy(z)
    assert_close(theirs, mine, atol=1e-4, rtol=1e-4)
    weights = torch.arange(10.0)
    (a,) = torch.autograd.grad(mine @ weights, x, torch.ones(3))
    (b,) = torch.autograd.grad(theirs @ weights, z, torch.ones(3))
    assert_close(b, a, atol=1e-3 * float(a.abs().max()), rtol=0)
    assert weights_fingerprint(model) == before


class Forked(nn.Module):
    """Its convolution is read twice: before and after the batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv(x)
        return (out + self.bn(out)).mean((2, 3))


def test_a_convolution_that_something_else_reads_is_left_alone() -> None:
    model = lived_in(Forked())
    assert folded(model) is model


def test_a_batch_norm_in_train_mode_is_left_alone() -> None:
    assert norms(folded(build("resnet18-w4", 10).train())) == 20


def defended(layer: str, neurons: int) -> IGDefense:
    model = lived_in(build("resnet18-w4", 10))
    return IGDefense(model, random_ranking(layer, 10, neurons, 0, {}), 8, temperature=0.5)


def test_the_base_model_inside_a_defense_is_folded_too(images: Tensor) -> None:
    defense = defended("layer4", 32)
    copy = quicker(defense, images)
    assert norms(copy) == 0
    assert_close(copy(images, [1, 2, 3]), defense(images, [1, 2, 3]), atol=1e-4, rtol=1e-4)
    assert quicker(defense, images) is copy


def test_a_copy_that_disagrees_is_not_used(images: Tensor) -> None:
    """The neurons of a convolution are no longer the same once its batch norm is in it."""
    defense = defended("layer4.1.conv2", 32)
    assert norms(folded(defense)) == 0
    assert quicker(defense, images) is defense
