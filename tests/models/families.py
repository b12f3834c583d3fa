"""The modern families at a size for tests: random weights, 3 classes, 32 x 32 images."""

from collections.abc import Callable

import torch
from torch import nn

from igdefense.models.adapters.adapted import Adapted, drawn
from igdefense.models.adapters.foreign import import_foreign
from igdefense.models.load import load_model

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


def _timm(spec: str) -> Callable[[], nn.Module]:
    return lambda: load_model(f"timm:{spec}&pretrained=false&num_classes=3")


def _vgg() -> nn.Module:
    """torchvision's VGG with narrow layers, which its functions do not offer."""
    vgg = import_foreign("torchvision.models.vgg")
    with torch.device("meta"):
        net = vgg.VGG(nn.Identity(), num_classes=3, init_weights=False)
    with drawn():
        net.features = vgg.make_layers([6, "M", 8, "M"])
        net.avgpool = nn.AdaptiveAvgPool2d(2)
        net.classifier[0], net.classifier[3] = nn.Linear(32, 12), nn.Linear(12, 10)
        net.classifier[6] = nn.Linear(10, 3)
    return Adapted(net, "torchvision", MEAN, STD)


def _mixer() -> nn.Module:
    mixer = import_foreign("timm.models.mlp_mixer")
    with drawn():
        net = mixer.MlpMixer(num_classes=3, img_size=32, patch_size=8, num_blocks=2, embed_dim=12)
        nn.init.normal_(net.head.weight)
    return Adapted(net, "timm", MEAN, STD)


# a net, the layer `igd layers` recommends, and a hidden one
FAMILIES: dict[str, tuple[Callable[[], nn.Module], str, str]] = {
    "convnext": (
        _timm("convnext_atto?depths=[1,1,1,1]&dims=[8,8,12,14]"),
        *("model.head.flatten", "model.stages.1"),
    ),
    "vit": (
        _timm("vit_tiny_patch16_224?img_size=32&patch_size=8&embed_dim=12&depth=2&num_heads=2"),
        *("model.fc_norm", "model.blocks.0"),
    ),
    "swin": (
        _timm(
            "swin_tiny_patch4_window7_224?img_size=32&window_size=4&embed_dim=8&depths=[1,1]"
            "&num_heads=[1,2]"
        ),
        *("model.head.global_pool", "model.layers.1@nhwc"),
    ),
    "densenet": (
        _timm("densenet121?growth_rate=4&block_config=[2,2]"),
        *("model.global_pool", "model.features.transition1"),
    ),
    "vgg": (_vgg, "model.classifier.4", "model.features"),
    "efficientnet": (_timm("test_efficientnet?"), "model.global_pool", "model.blocks.1"),
    "mlp-mixer": (_mixer, "model.head_drop", "model.blocks.0"),
}
