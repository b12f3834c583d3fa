"""Small nets of every shape the package must handle."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from igdefense.models.resnet import ResNet

CLASSES = 3


class MLP(nn.Module):
    """2-D activations."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(3 * 8 * 8, 12)
        self.act = nn.ReLU(inplace=True)
        self.middle = nn.Linear(12, 9)
        self.out = nn.Linear(9, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        return self.out(torch.tanh(self.middle(self.act(self.hidden(images.flatten(1))))))


class CNN(nn.Module):
    """4-D activations; an in-place ReLU follows `conv2`, and `skip` flows around it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 3, padding=1)
        self.conv2 = nn.Conv2d(6, 6, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.last = nn.Conv2d(6, 10, 3, stride=2)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(10, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        skip = self.conv1(images)
        out = self.relu(self.conv2(F.relu(skip)))
        out = out + skip
        return self.fc(self.pool(F.relu(self.last(out))).flatten(1))


class ViT(nn.Module):
    """3-D (token) activations, with a class token and positions added around the layers."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.positions = nn.Parameter(torch.randn(1, 5, 8))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True) for _ in range(2)
        )
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(images.shape[0], -1, -1), tokens], dim=1)
        tokens = tokens + self.positions
        for block in self.blocks:
            tokens = block(tokens)
        return self.head(self.norm(tokens)[:, 0])


class Untraceable(CNN):
    """Its forward pass looks at the values, which no tracer can follow."""

    def forward(self, images: Tensor) -> Tensor:
        if images.mean() > 2:
            return self.fc(images.flatten(1)[:, :10])
        return super().forward(images)


NETS: dict[str, type[nn.Module]] = {"mlp": MLP, "cnn": CNN, "vit": ViT, "untraceable": Untraceable}
LAYERS = [
    ("mlp", "hidden"),
    ("mlp", "act"),
    ("mlp", "middle"),
    ("cnn", "conv1"),
    ("cnn", "conv2"),
    ("cnn", "relu"),
    ("cnn", "last"),
    ("cnn", "pool"),
    ("vit", "patches"),
    ("vit", "blocks.0"),
    ("vit", "blocks.1"),
    ("vit", "norm"),
    ("untraceable", "conv2"),
    ("untraceable", "pool"),
    ("resnet", "layer3.0.conv1"),
    ("resnet", "layer3"),
    ("resnet", "layer4"),
]


def make_net(name: str) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = ResNet(width=2, classes=CLASSES) if name == "resnet" else NETS[name]()
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_(0, 0.1)  # type: ignore[union-attr]
                module.running_var.uniform_(0.5, 1.5)  # type: ignore[union-attr]
    return net.eval()
