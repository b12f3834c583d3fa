"""Defend a vision transformer from timm; its neurons are the channels of its tokens."""

import timm
import torch

import igdefense as igd
from igdefense.models import Normalized

torch.manual_seed(0)
vit = timm.create_model(  # in earnest: timm.create_model("vit_small_patch16_224", pretrained=True)
    "vit_tiny_patch16_224", img_size=32, patch_size=8, depth=2, embed_dim=48, num_classes=10
)
half = (0.5, 0.5, 0.5)  # as in vit.pretrained_cfg["mean"] and ["std"]
model = Normalized(vit, mean=half, std=half).eval()
probe = igd.load_data("embedded:probe", n=50)

ranking = igd.leave_one_out(model, probe, layer="model.norm")  # after the last block
print(ranking)
defense = igd.defend(model, ranking, keep=24)
x = probe.images[:4].requires_grad_()
logits = defense(x)  # differentiable through both passes
(slope,) = torch.autograd.grad(logits.sum(), x)
print(logits.shape, slope.abs().max())
