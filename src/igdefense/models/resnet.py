"""The ResNets and WideResNets of the paper at any width, with their normalisation inside.

Parameter names follow the checkpoints in circulation: the CIFAR ResNets and PreActResNets
(`layer1..4`, `linear`), the WideResNet of RobustBench (`block1..3`, `bn1`, `relu`, `fc`) and the
ImageNet ResNet (`layer1..4`, `fc`).
"""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from igdefense.models.normalize import (
    CIFAR10_MEAN,
    CIFAR10_STD,
    IMAGENET_MEAN,
    IMAGENET_STD,
    Normalize,
)


def _conv3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around a shortcut (arXiv:1512.03385)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv3(inputs, width, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = _conv3(width, width), nn.BatchNorm2d(width)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class PreActBlock(nn.Module):
    """The pre-activation block (arXiv:1603.05027)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), _conv3(inputs, width, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(width), _conv3(width, width)
        if stride != 1 or inputs != width:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(x))
        shortcut = self.shortcut(out) if hasattr(self, "shortcut") else x
        return self.conv2(F.relu(self.bn2(self.conv1(out)))) + shortcut


def _stage(
    block: type[BasicBlock] | type[PreActBlock], inputs: int, width: int, depth: int, stride: int
) -> nn.Sequential:
    blocks = [block(inputs, width, stride)]
    blocks += [block(width, width, 1) for _ in range(depth - 1)]
    return nn.Sequential(*blocks)


class ResNet(nn.Module):
    """The CIFAR ResNet: `width` channels in layer1, eight times as many in layer4."""

    def __init__(
        self,
        depths: Sequence[int] = (2, 2, 2, 2),
        width: int = 64,
        classes: int = 10,
        mean: Sequence[float] = CIFAR10_MEAN,
        std: Sequence[float] = CIFAR10_STD,
    ) -> None:
        super().__init__()
        self.normalize = Normalize(mean, std)
        self.conv1, self.bn1 = _conv3(3, width), nn.BatchNorm2d(width)
        self.layer1 = _stage(BasicBlock, width, width, depths[0], 1)
        self.layer2 = _stage(BasicBlock, width, 2 * width, depths[1], 2)
        self.layer3 = _stage(BasicBlock, 2 * width, 4 * width, depths[2], 2)
        self.layer4 = _stage(BasicBlock, 4 * width, 8 * width, depths[3], 2)
        self.linear = nn.Linear(8 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(self.normalize(images))))
        out = self.layer4(self.layer3(self.layer2(self.layer1(out))))
        return self.linear(F.adaptive_avg_pool2d(out, 1).flatten(1))


class PreActResNet(nn.Module):
    """The CIFAR PreActResNet; its penultimate neurons are the output of `relu`."""

    def __init__(
        self,
        depths: Sequence[int] = (2, 2, 2, 2),
        width: int = 64,
        classes: int = 10,
        mean: Sequence[float] = CIFAR10_MEAN,
        std: Sequence[float] = CIFAR10_STD,
    ) -> None:
        super().__init__()
        self.normalize = Normalize(mean, std)
        self.conv1 = _conv3(3, width)
        self.layer1 = _stage(PreActBlock, width, width, depths[0], 1)
        self.layer2 = _stage(PreActBlock, width, 2 * width, depths[1], 2)
        self.layer3 = _stage(PreActBlock, 2 * width, 4 * width, depths[2], 2)
        self.layer4 = _stage(PreActBlock, 4 * width, 8 * width, depths[3], 2)
        self.bn = nn.BatchNorm2d(8 * width)
        self.relu = nn.ReLU()
        self.linear = nn.Linear(8 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        out = self.conv1(self.normalize(images))
        out = self.layer4(self.layer3(self.layer2(self.layer1(out))))
        return self.linear(F.adaptive_avg_pool2d(self.relu(self.bn(out)), 1).flatten(1))


class WideBlock(nn.Module):
    """The block of the WideResNet (arXiv:1605.07146)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.relu1 = nn.BatchNorm2d(inputs), nn.ReLU(inplace=True)
        self.conv1 = _conv3(inputs, width, stride)
        self.bn2, self.relu2 = nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        self.conv2 = _conv3(width, width)
        self.convShortcut = (  # the name in circulation
            nn.Conv2d(inputs, width, 1, stride, bias=False) if inputs != width else None
        )

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu1(self.bn1(x))
        shortcut = x if self.convShortcut is None else self.convShortcut(out)
        return self.conv2(self.relu2(self.bn2(self.conv1(out)))) + shortcut


class WideStage(nn.Module):
    """`depth` blocks of one width, under the attribute `layer`."""

    def __init__(self, inputs: int, width: int, depth: int, stride: int) -> None:
        super().__init__()
        first = [WideBlock(inputs, width, stride)]
        self.layer = nn.Sequential(*first, *[WideBlock(width, width, 1) for _ in range(depth - 1)])

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class WideResNet(nn.Module):
    """WRN-depth-widen; its penultimate neurons are the output of `relu`, after the last bn1."""

    def __init__(
        self,
        depth: int = 34,
        widen: int = 10,
        classes: int = 10,
        mean: Sequence[float] = CIFAR10_MEAN,
        std: Sequence[float] = CIFAR10_STD,
    ) -> None:
        super().__init__()
        blocks = (depth - 4) // 6
        self.normalize = Normalize(mean, std)
        self.conv1 = _conv3(3, 16)
        self.block1 = WideStage(16, 16 * widen, blocks, 1)
        self.block2 = WideStage(16 * widen, 32 * widen, blocks, 2)
        self.block3 = WideStage(32 * widen, 64 * widen, blocks, 2)
        self.bn1, self.relu = nn.BatchNorm2d(64 * widen), nn.ReLU(inplace=True)
        self.fc = nn.Linear(64 * widen, classes)

    def forward(self, images: Tensor) -> Tensor:
        out = self.block3(self.block2(self.block1(self.conv1(self.normalize(images)))))
        return self.fc(F.adaptive_avg_pool2d(self.relu(self.bn1(out)), 1).flatten(1))


class Bottleneck(nn.Module):
    """The 1x1, 3x3, 1x1 block of the ImageNet ResNets, with its stride in the 3x3."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = _conv3(width, width, stride), nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = (
            nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )
            if stride != 1 or inputs != 4 * width
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn3(self.conv3(F.relu(self.bn2(self.conv2(out)))))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


def _bottlenecks(inputs: int, width: int, depth: int, stride: int) -> nn.Sequential:
    first = Bottleneck(inputs, width, stride)
    return nn.Sequential(first, *[Bottleneck(4 * width, width, 1) for _ in range(depth - 1)])


class ImageNetResNet(nn.Module):
    """The bottleneck ResNet for large images: ResNet50 by default."""

    def __init__(
        self,
        depths: Sequence[int] = (3, 4, 6, 3),
        width: int = 64,
        classes: int = 1000,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
    ) -> None:
        super().__init__()
        self.normalize = Normalize(mean, std)
        self.conv1 = nn.Conv2d(3, width, 7, 2, padding=3, bias=False)
        self.bn1, self.relu = nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        self.layer1 = _bottlenecks(width, width, depths[0], 1)
        self.layer2 = _bottlenecks(4 * width, 2 * width, depths[1], 2)
        self.layer3 = _bottlenecks(8 * width, 4 * width, depths[2], 2)
        self.layer4 = _bottlenecks(16 * width, 8 * width, depths[3], 2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(32 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        out = self.maxpool(self.relu(self.bn1(self.conv1(self.normalize(images)))))
        out = self.layer4(self.layer3(self.layer2(self.layer1(out))))
        return self.fc(self.avgpool(out).flatten(1))
