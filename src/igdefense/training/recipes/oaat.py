"""Oracle-aligned adversarial training."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from igdefense.layers import neuron_axis, reading
from igdefense.models.architectures import default_layer
from igdefense.training.recipe import (
    MultiStep,
    Objective,
    Step,
    ascend,
    evaluating,
    kl,
    uniform,
    within,
)
from igdefense.types import Images, Labels, Logits


@dataclass(frozen=True, kw_only=True)
class OAAT(MultiStep):
    """TRADES' loss up to budgets that people can see, where labels may change (arXiv:2210.09852).

    The training budget stays at a quarter of `reach` times eps for a quarter of the training and
    then grows to all of it. In the last quarter batches take turns: one has its attack kept close
    to the image in the eyes of the network (Oracle-invariant); the other's far attack softens the
    target of the nearer one (Oracle-sensitive).

    Different from the paper: the perceptual distance is that of the penultimate layer of the model
    itself as it is, not of all layers of an average of its past; attacks are made in eval mode;
    no AutoAugment. `--awp` and `--ema` add what else the paper has.
    """

    reach: float = 2.0
    beta: tuple[float, float] = (2.0, 3.0)
    soften: float = 0.45
    likeness: float = 1.0

    def objective(
        self, model: nn.Module, images: Images, labels: Labels, step: Step, rng: Generator
    ) -> Objective:
        most = self.reach * self.eps
        eps = most * max(0.25, step.progress if step.progress > 0.25 else 0.0)
        late = max(0.0, 4 * step.progress - 3)  # 0 to 1 over the last quarter
        beta = self.beta[0] + (self.beta[1] - self.beta[0]) * late
        if late and step.number % 2:
            return self._invariant(model, images, labels, eps, late, beta, rng)
        x = self._attack(model, images, labels, most if late else eps, step, rng)
        near = within(x, images, eps)
        share = 1 - self.soften * late

        def lost(model: nn.Module) -> Tensor:
            clean = model(images)
            loss = self.cross_entropy(clean, labels)
            if not late:
                return loss + beta * kl(clean, model(x))
            target = share * clean.softmax(1) + (1 - share) * model(x).softmax(1)
            logs = model(near).log_softmax(1)
            return loss + beta * F.kl_div(logs, target, reduction="batchmean")

        return lost

    def _attack(
        self,
        model: nn.Module,
        images: Images,
        labels: Labels,
        eps: float,
        step: Step,
        rng: Generator,
    ) -> Images:
        """Half the steps, twice as long, in the first quarter."""
        short = 2 if step.progress <= 0.25 and self.steps > 1 else 1
        start = images + uniform(images, min(self.eps / 2, eps), rng)
        with evaluating(model):
            return ascend(
                start,
                images,
                lambda x: F.cross_entropy(model(x), labels),
                eps=eps,
                step=self.step * eps * short,
                steps=self.steps // short,
            )

    def _invariant(
        self,
        model: nn.Module,
        images: Images,
        labels: Labels,
        eps: float,
        late: float,
        beta: float,
        rng: Generator,
    ) -> Objective:
        with evaluating(model):
            seen = eyes(model)
            with torch.no_grad():
                original = seen(images)[0]

            def climbed(x: Images) -> Tensor:
                features, logits = seen(x)
                unlike = (features - original).square().flatten(1).sum(1).mean()
                return F.cross_entropy(logits, labels) - self.likeness * late * unlike

            x = ascend(
                images + uniform(images, eps, rng),
                images,
                climbed,
                eps=eps,
                step=self.step * eps,
                steps=self.steps,
            )

        def lost(model: nn.Module) -> Tensor:
            clean = model(images)
            return self.cross_entropy(clean, labels) + beta * kl(clean, model(x))

        return lost


def eyes(model: nn.Module) -> Callable[[Images], tuple[Tensor, Logits]]:
    """The penultimate layer's output, of unit length at each place, and the logits."""
    layer = default_layer(model)

    def see(images: Images) -> tuple[Tensor, Logits]:
        if layer is None:
            logits = model(images)
            return F.normalize(logits), logits
        with reading(model, layer) as outputs:
            logits = model(images)
        axis = neuron_axis(outputs[0])
        places = outputs[0][0].numel() // outputs[0].shape[axis]
        return F.normalize(outputs[0], dim=axis) / places**0.5, logits  # the mean over places

    return see
