"""Images that two data sets share, whatever they are called there."""

import hashlib

from igdefense.data.data import Data
from igdefense.errors import DataError


def check_disjoint(one: Data, other: Data, names: tuple[str, str]) -> None:
    """Refuse data that share an image, by its pixels; labels play no part."""
    shared = len(_contents(one) & _contents(other))
    if shared:
        raise DataError(
            f"{names[0]} and {names[1]} share {shared} image{'s' * (shared > 1)}, so what comes of "
            "the one would not be new to the other: give parts that do not overlap, such as "
            "embedded:test[500:1000] and embedded:test[0:500]."
        )


def _contents(data: Data) -> set[bytes]:
    return {
        hashlib.sha256(image.mul(65535).round().int().cpu().numpy().tobytes()).digest()
        for images, _ in data.batches(500)
        for image in images
    }
