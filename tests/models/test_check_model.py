"""Models that are no classifiers in eval mode are told apart."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from igdefense.errors import LayerError, ModelError
from igdefense.models import build, check_model

IMAGES = torch.rand(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Returns(nn.Module):
    """Returns what a function makes of the images."""

    def __init__(self, function: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, images: Tensor) -> object:
        return self.function(images)


def raises(error: Exception) -> Callable[[Tensor], object]:
    def function(_: Tensor) -> object:
        raise error

    return function


def pooled(images: Tensor) -> Tensor:
    return images.mean((2, 3)) - 0.5


@pytest.mark.parametrize("classes", [2, 10])
def test_a_classifier_has_its_number_of_classes(classes: int) -> None:
    assert check_model(build("resnet18-w2", classes).eval(), IMAGES) == classes


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: (pooled(x), x), "returns a tuple; expected a tensor of logits"),
        (lambda x: {"logits": pooled(x)}, "returns a dict"),
        (lambda x: x, "returns (4, 3, 8, 8) torch.float32; expected floating-point logits"),
        (lambda x: pooled(x).argmax(1), "returns (4,) torch.int64"),
        (lambda x: pooled(x).long(), "returns (4, 3) torch.int64"),
        (lambda x: pooled(x)[:, :1], "at least 2 classes"),
        (lambda x: pooled(x)[:2], "for 4 images; expected one row for each"),
        (lambda x: pooled(x) * float("nan"), "NaN or infinite logits"),
        (lambda x: pooled(x).softmax(1), "outputs look like probabilities; return logits"),
        (raises(RuntimeError("bad shapes\nmore")), "cannot take images of 3 x 8 x 8: bad shapes G"),
        (raises(AssertionError()), "cannot take images of 3 x 8 x 8: AssertionError"),
    ],
)
def test_what_is_not_logits_is_named(function: Callable[[Tensor], object], says: str) -> None:
    with pytest.raises(ModelError) as error:
        check_model(Returns(function).eval(), IMAGES)
    assert says in str(error.value)


def test_log_probabilities_are_logits() -> None:
    assert check_model(Returns(lambda x: pooled(x).log_softmax(1)).eval(), IMAGES) == 3


def test_a_wrong_image_size_is_reported_in_one_line() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10)).eval()
    with pytest.raises(ModelError, match="cannot take images of 3 x 8 x 8: mat1 and mat2") as error:
        check_model(model, IMAGES)
    assert "\n" not in str(error.value)


def test_our_own_errors_pass_through() -> None:
    with pytest.raises(LayerError, match="as it was"):
        check_model(Returns(raises(LayerError("as it was"))).eval(), IMAGES)


def test_train_mode_is_refused_and_left_as_it_is() -> None:
    model = build("resnet18-w2").train()
    with pytest.raises(ModelError, match=r"ResNet is in train mode, .* call \.eval\(\)"):
        check_model(model, IMAGES)
    assert model.training


def test_one_layer_in_train_mode_is_refused_by_name() -> None:
    model = build("resnet18-w2").eval()
    model.get_submodule("layer3.0.bn1").train()
    with pytest.raises(ModelError, match=r"in part \(layer 'layer3.0.bn1'\)"):
        check_model(model, IMAGES)
