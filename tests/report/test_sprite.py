import base64
import io

import torch
from PIL import Image

from igdefense.report.sprite import LARGEST, Sprite


def picture(sprite: Sprite) -> Image.Image:
    coded = sprite.uri.removeprefix("data:image/webp;base64,")
    return Image.open(io.BytesIO(base64.b64decode(coded)))


def test_tile_i_is_at_column_i_modulo_columns() -> None:
    shades = torch.linspace(0, 1, 5)
    tiles = shades.view(5, 1, 1, 1).expand(5, 3, 8, 8)
    sprite = Sprite.of(tiles, lossless=True)
    assert (sprite.columns, sprite.rows) == (3, 2)
    for i, shade in enumerate(shades.tolist()):
        place = (8 * (i % 3) + 4, 8 * (i // 3) + 4)
        assert picture(sprite).convert("RGB").getpixel(place) == (round(255 * shade),) * 3


def test_grey_images_and_large_ones_fit_too() -> None:
    sprite = Sprite.of(torch.full((1, 1, 200, 100), 0.5))
    assert picture(sprite).size == (LARGEST // 2, LARGEST)
