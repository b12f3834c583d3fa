"""Encoders: images and texts in one space, so that a picture can be held against a name."""

from igdefense.rankings.encoders.encoder import Encoder, load_encoder

__all__ = ["Encoder", "load_encoder"]
