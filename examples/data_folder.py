"""Rank and judge with images of your own: a folder with one sub-folder for each class."""

from pathlib import Path

import torch
from PIL import Image

import igdefense as igd
from igdefense.data import balanced

shown = igd.load_data("embedded:test", n=100)  # stands in for your pictures
for number, (image, label) in enumerate(zip(shown.images[:], shown.labels, strict=True)):
    folder = Path("pictures") / shown.class_names[int(label)]
    folder.mkdir(parents=True, exist_ok=True)
    pixels = (image * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    Image.fromarray(pixels).save(folder / f"{number:03}.png")

# Classes are the sub-folders in alphabetical order, which must be the order of the model's logits.
# Images of other sizes are resized and cropped; they are read when they are needed.
data = igd.load_data("folder:pictures", size=32)
print(data, data.class_names)

model = igd.load_model("embedded")
few = balanced(data, 2, seed=0)  # as many of each class
ranking = igd.leave_one_out(model, few, layer="layer4")
print(igd.tune(model, ranking, data).table())
