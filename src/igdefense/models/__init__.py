"""Models: [0, 1] pixels in, logits out, normalisation inside."""

from igdefense.models.architectures import build, default_layer
from igdefense.models.check import check_eval, check_model
from igdefense.models.checkpoint import load_checkpoint
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.models.load import embedded_card, load_model
from igdefense.models.normalize import Normalize, Normalized
from igdefense.models.resnet import ImageNetResNet, PreActResNet, ResNet, WideResNet
from igdefense.models.zoo import card_of, zoo

__all__ = [
    "ImageNetResNet",
    "Normalize",
    "Normalized",
    "PreActResNet",
    "ResNet",
    "WideResNet",
    "build",
    "card_of",
    "check_eval",
    "check_model",
    "default_layer",
    "embedded_card",
    "load_checkpoint",
    "load_model",
    "weights_fingerprint",
    "zoo",
]
