"""What each neuron contributes to each logit when the rest of the network is affine."""

from dataclasses import dataclass

import torch
from torch import Tensor

from igdefense.layers import neuron_axis
from igdefense.split import Split
from igdefense.types import Activations, Labels, Logits


@dataclass(frozen=True, eq=False)
class AffineHead:
    """h(a) = bias + sum over neurons (and positions) of weight x activation."""

    weight: Tensor  # classes x neurons x positions; one position where all are alike (pooling)
    bias: Tensor  # classes

    @classmethod
    def of(cls, parts: Split, activations: Activations) -> "AffineHead":
        """Read the weights off the gradient, which is the same everywhere."""
        with torch.enable_grad():
            point = torch.zeros_like(activations[:1]).requires_grad_()
            logits = parts.after(point)[0]
            rows = []
            for logit in logits:
                (gradient,) = torch.autograd.grad(logit, point, retain_graph=True)
                row = _by_neuron(gradient)[0]
                alike = bool((row == row[:, :1]).all())
                rows.append(row[:, :1].clone() if alike else row)
        wide = max(row.shape[1] for row in rows)
        return cls(torch.stack([row.expand(-1, wide) for row in rows]), logits.detach())

    def logits(self, activations: Activations) -> Logits:
        """h(a)."""
        return torch.einsum("inp,cnp->ic", self.positions(activations), self.weight) + self.bias

    def positions(self, activations: Activations) -> Tensor:
        """images x neurons x positions, summed where all positions have one weight."""
        laid_out = _by_neuron(activations)
        return laid_out.sum(2, keepdim=True) if self.weight.shape[2] == 1 else laid_out

    def contributions(self, activations: Activations, labels: Labels) -> Tensor:
        """What each neuron adds to the logit of each image's label: images x neurons."""
        return (self.positions(activations) * self.weight[labels]).sum(2)

    def all_contributions(self, activations: Activations) -> Tensor:
        """What each neuron adds to every logit: images x classes x neurons."""
        return torch.einsum("inp,cnp->icn", self.positions(activations), self.weight)


def _by_neuron(activations: Tensor) -> Tensor:
    return activations.movedim(neuron_axis(activations), 1).reshape(
        activations.shape[0], activations.shape[neuron_axis(activations)], -1
    )
