"""Models that the tests name on the command line: `shell_nets:cnn`."""

import torch
from torch import Tensor, nn

from nets import CNN, make_net


class Twice(CNN):
    """Calls `relu` twice and has a layer that returns a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair()

    def forward(self, images: Tensor) -> Tensor:
        first, second = self.pair(self.relu(self.conv1(images)))
        return self.fc(self.pool(self.last(self.relu(first + second))).flatten(1))


class Pair(nn.Module):
    def forward(self, activations: Tensor) -> tuple[Tensor, Tensor]:
        return activations, activations


class Indices(CNN):
    """Returns the class, not its logits."""

    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).argmax(1)


def cnn() -> nn.Module:
    return make_net("cnn")


def other() -> nn.Module:
    net = make_net("cnn")
    with torch.no_grad():
        net.get_parameter("fc.bias").add_(1)
    return net


def training() -> nn.Module:
    return make_net("cnn").train()


def mlp() -> nn.Module:
    return make_net("mlp")


def bare() -> nn.Module:
    return nn.Flatten().eval()


def probabilities() -> nn.Module:
    return nn.Sequential(make_net("cnn"), nn.Softmax(dim=1)).eval()


def indices() -> nn.Module:
    return Indices().eval()


def twice() -> nn.Module:
    return Twice().eval()
