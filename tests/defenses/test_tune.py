import pytest
import torch
from torch import Tensor, nn

from igdefense.data.data import Data
from igdefense.defenses.ig_defense import defend
from igdefense.defenses.tune import Tuning, tune
from igdefense.errors import SettingError
from igdefense.rankings.leave_one_out import leave_one_out
from nets import make_net


@pytest.fixture
def many() -> Data:
    images = torch.rand(60, 3, 8, 8, generator=torch.Generator().manual_seed(5))
    return Data(images, torch.arange(60) % 3, ["cat", "dog", "bird"])


def accuracy(net: nn.Module, data: Data, **keys: range) -> float:
    images: Tensor = data.images[:]
    return float((net(images, **keys).argmax(1) == data.labels).float().mean())


@pytest.mark.parametrize("layer", ["pool", "conv2"])
@pytest.mark.parametrize("temperature", [0.01, 1.0])
def test_each_keep_has_the_accuracy_of_the_defense_that_keeps_so_many(
    many: Data, layer: str, temperature: float
) -> None:
    net = make_net("cnn")
    ranking = leave_one_out(net, many, layer)
    tuning = tune(net, ranking, many, sigma=0.1, temperature=temperature, batch_size=7)
    assert tuning.base == pytest.approx(accuracy(net, many))
    for keep, value in tuning.accuracy.items():
        defense = defend(net, ranking, keep, sigma=0.1, temperature=temperature)
        assert value == pytest.approx(accuracy(defense, many, keys=range(60))), keep


def test_a_linear_head_gives_every_keep_from_one_pass(many: Data) -> None:
    net = make_net("resnet")
    ranking = leave_one_out(net, many, "layer4")
    seen = 0

    def count(_: nn.Module, inputs: tuple[Tensor, ...], __: Tensor) -> None:
        nonlocal seen
        seen += len(inputs[0])

    net.get_submodule("layer1").register_forward_hook(count)
    tuning = tune(net, ranking, many, sigma=0)
    assert list(tuning.accuracy) == list(range(1, 17))
    assert seen <= len(many) + 12  # small looks at two images


def test_the_smallest_keep_within_the_tolerance_is_chosen() -> None:
    tuning = Tuning({1: 0.5, 2: 0.79, 3: 0.7, 4: 0.8}, base=0.8, tolerance=0.01, images=100)
    assert tuning.keep == 2
    assert "<- smallest within 1.00%" in tuning.table().splitlines()[2]
    assert Tuning({1: 0.5}, base=0.8, tolerance=0.01, images=100).keep is None


def test_a_keep_outside_the_layer_is_refused(many: Data) -> None:
    net = make_net("cnn")
    with pytest.raises(SettingError, match="keeps must lie in 1 to 10"):
        tune(net, leave_one_out(net, many, "pool"), many, keeps=[5, 11])
