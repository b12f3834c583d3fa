"""Pictures, as the encoders of other packages take them."""

from collections.abc import Iterator

import torch
from PIL import Image

from igdefense.types import Images


def pictures(images: Images) -> Iterator[Image.Image]:
    """8-bit pictures, which is what the encoders' own preprocessing takes."""
    bytes = (images * 255).round().to(torch.uint8).cpu()
    if bytes.shape[1] == 1:
        bytes = bytes.expand(-1, 3, -1, -1)
    for image in bytes:
        yield Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())
