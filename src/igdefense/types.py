"""Every tensor shape of the package, written once."""

from jaxtyping import Bool, Float, Int
from torch import Tensor

Images = Float[Tensor, "batch channels height width"]  # pixels in [0, 1]
Labels = Int[Tensor, " batch"]
Logits = Float[Tensor, "batch classes"]
Activations = Float[Tensor, "batch *rest"]  # neurons: axis 1 (2-D, 4-D) or the last axis (3-D)
Scores = Float[Tensor, "classes neurons"]
Masks = Float[Tensor, "classes neurons"]  # 1 keeps a neuron, 0 removes it
Outcomes = Bool[Tensor, " batch"]
