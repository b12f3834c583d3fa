"""A random defense whose accuracy is known: each call is wrong with a given probability."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from igdefense.models.fingerprint import hash_text
from igdefense.randomness import Streams


class Flips(nn.Module):
    """Says 0, but with probability p, by an image's key, 1."""

    random = True

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, images: Tensor, keys: Sequence[int] | None = None) -> Tensor:
        if keys is None:
            keys = torch.randint(2**62, (len(images),)).tolist()
        wrong = (Streams(keys).uniform((1,)) < self.p).squeeze(1)
        tie = 0 * self.weight * images.flatten(1).sum(1)
        return torch.stack([tie + (~wrong).float(), tie + wrong.float()], dim=1)

    def identity(self) -> str:
        return hash_text("flips", self.p)
