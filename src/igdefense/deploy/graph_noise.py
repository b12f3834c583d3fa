"""Noise that a graph draws for itself, with operators instead of a generator."""

import torch
from torch import Tensor

from igdefense.defenses.noise import Noise
from igdefense.types import Images


class GraphNoise(Noise):
    """The noise of a defense inside an exported graph.

    `fresh` noise comes from the runtime, anew for each image, sample and call; `frozen` noise is a
    constant of the graph, the same numbers as in PyTorch.
    """

    def __init__(self, noise: Noise, images: Images) -> None:
        super().__init__(noise.sigma, noise.samples, noise.seed, noise.kind)
        self._frozen: Tensor | None = None
        if noise.kind == "frozen":
            self._frozen = noise.around(torch.zeros_like(images[:1]))[:, None]

    def around(self, images: Images, keys: object = None) -> Tensor:
        if keys is not None:
            raise TypeError("A graph draws its own noise; keys have no meaning to it.")
        copies = images[None].expand(self.samples, -1, -1, -1, -1)
        noise = torch.randn_like(copies) * self.sigma if self._frozen is None else self._frozen
        return (copies + noise).flatten(0, 1)
