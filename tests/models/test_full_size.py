"""The real architectures at their real size, with random weights."""

import pytest
import torch

from igdefense import Data, leave_one_out, load_model
from igdefense.layers import edited
from igdefense.models.penultimate import recommended_layer

pytestmark = pytest.mark.slow
NETS = {
    "torchvision:convnext_tiny": (768, "model.classifier.1"),
    "torchvision:vit_b_32": (768, "model.encoder"),
    "torchvision:swin_t": (768, "model.flatten"),
    "torchvision:densenet121": (1024, "model.features"),
    "torchvision:vgg11": (4096, "model.classifier.4"),
    "torchvision:efficientnet_b0": (1280, "model.classifier.0"),
    "torchvision:resnet50": (2048, "model.avgpool"),
    "timm:mixer_s32_224": (512, "model.head_drop"),
    "timm:swin_tiny_patch4_window7_224": (768, "model.head.global_pool"),
    "timm:convnext_tiny": (768, "model.head.flatten"),
}


@pytest.mark.parametrize("name", NETS)
def test_lo_ir_at_the_recommended_layer_is_masking_and_running_again(name: str) -> None:
    neurons, layer = NETS[name]
    net = load_model(f"{name}?pretrained=false&num_classes=2")
    images = torch.rand(2, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    assert recommended_layer(net, images) == layer
    scores = leave_one_out(net, Data(images, torch.arange(2)), layer, progress=False).scores
    assert scores.shape == (2, neurons)
    mask = torch.ones(neurons)
    mask[strongest := int(scores.abs().sum(0).argmax())] = 0
    with torch.no_grad():
        full = net(images)
        with edited(net, layer, lambda out: out * (mask if out.ndim < 4 else mask[:, None, None])):
            fallen = (full - net(images)).diagonal()
    torch.testing.assert_close(scores[:, strongest], fallen, rtol=1e-2, atol=1e-5)
