"""Data: labelled images in [0, 1], from a string or your own tensors."""

from igdefense.data.data import Data, ImageSource, Pixels, check_pixels
from igdefense.data.datasets import load_data
from igdefense.data.subset import balanced

__all__ = ["Data", "ImageSource", "Pixels", "balanced", "check_pixels", "load_data"]
