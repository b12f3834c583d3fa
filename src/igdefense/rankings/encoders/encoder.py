"""Encoder: what CD-IR needs of CLIP or of anything like it, and one string for each."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from igdefense.errors import SettingError
from igdefense.rankings.encoders.dual import Embeddings
from igdefense.rankings.encoders.embedded import EmbeddedEncoder
from igdefense.rankings.encoders.open_clip import OpenClipEncoder
from igdefense.rankings.encoders.transformers import TransformersEncoder
from igdefense.types import Images

FORMS = (
    "embedded, embedded:FOLDER, open_clip:ARCHITECTURE/WEIGHTS, open_clip:FOLDER or "
    "transformers:FOLDER-or-NAME"
)


@runtime_checkable
class Encoder(Protocol):
    """Images and texts to unit vectors of one space."""

    @property
    def identity(self) -> str:
        """Names the weights and the preprocessing, by their content."""

    def images(self, images: Images) -> Embeddings:
        """[0, 1] pixels of any device; the encoder's own preprocessing is inside."""

    def texts(self, texts: Sequence[str]) -> Embeddings: ...


def load_encoder(spec: str) -> Encoder:
    """The encoder a string names; nothing is ever downloaded."""
    kind, _, name = spec.partition(":")
    if kind == "embedded":
        return EmbeddedEncoder.find(name)
    if kind == "open_clip" and name:
        return OpenClipEncoder.find(name)
    if kind == "transformers" and name:
        return TransformersEncoder.find(name)
    raise SettingError(f"Unknown encoder {spec!r}; expected {FORMS}.")
