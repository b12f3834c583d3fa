"""Adversarial training with a learnable attack strategy."""

import copy
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from igdefense.randomness import seed_of
from igdefense.training.recipe import LinfRecipe, Objective, Step, ascend, evaluating, uniform
from igdefense.types import Images, Labels

SIZES = (0.5, 0.75, 1.0, 1.25, 1.5)  # of the budget, in units of eps
STRIDES = (0.125, 0.25, 0.375, 0.5)  # of a step, in units of the chosen budget


class Strategy(nn.Module):
    """Looks at an image and says how likely each choice of budget, step and step count is."""

    def __init__(self, counts: int) -> None:
        super().__init__()
        self.choices = (len(SIZES), len(STRIDES), counts)
        self.first = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.second = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.head = nn.Linear(32, sum(self.choices))

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        out = F.relu(self.second(F.relu(self.first(images))))
        return self.head(out.mean((2, 3))).split(self.choices, dim=1)


@dataclass(frozen=True, kw_only=True)
class LASAT(LinfRecipe):
    """PGD whose budget, step and step count a second network chooses (arXiv:2203.06616).

    Every `interval` batches the strategy network is rewarded (REINFORCE) by the loss that its
    attacks cause, and by how well a copy of the model does after one step on them, clean and
    under PGD, so that it also learns not to attack too hard.

    Different from the paper: the strategy is a network of two convolutions and not a ResNet18;
    there are five budgets, four steps and `steps` counts to choose from; rewards are less their
    running mean, and the look-ahead takes one plain gradient step.
    """

    steps: int = 10
    interval: int = 20
    rate: float = 1e-3
    ahead: float = 0.1
    rewards: tuple[float, float, float] = (1.0, 1.0, 1.0)  # attack, robust and clean afterwards
    strategy: Strategy = field(init=False, repr=False, compare=False)
    optimizer: torch.optim.Adam = field(init=False, repr=False, compare=False)
    mean: Tensor = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        with torch.random.fork_rng():  # initial weights come from torch's own generator
            torch.manual_seed(seed_of("strategy"))
            strategy = Strategy(self.steps)
        adam = torch.optim.Adam(strategy.parameters(), lr=self.rate)
        object.__setattr__(self, "strategy", strategy)
        object.__setattr__(self, "optimizer", adam)
        object.__setattr__(self, "mean", torch.zeros(2))  # the running reward, and its weight

    def objective(
        self, model: nn.Module, images: Images, labels: Labels, step: Step, rng: Generator
    ) -> Objective:
        likely = [scores.log_softmax(1) for scores in self.strategy(images.cpu())]
        chosen = [torch.multinomial(logs.exp(), 1, generator=rng) for logs in likely]
        x = self._attack(model, images, labels, chosen, rng)

        def lost(model: nn.Module) -> Tensor:
            return self.cross_entropy(model(x), labels)

        if step.number % self.interval == self.interval - 1:
            said = sum(
                logs.gather(1, pick).squeeze(1) for logs, pick in zip(likely, chosen, strict=True)
            )
            self._learn(torch.as_tensor(said), self._reward(model, images, labels, x, lost, rng))
        return lost

    def _attack(
        self,
        model: nn.Module,
        images: Images,
        labels: Labels,
        chosen: list[Tensor],
        rng: Generator,
    ) -> Images:
        """Every image takes its own number of its own steps inside its own budget."""
        eps = self.eps * torch.tensor(SIZES)[chosen[0]].view(-1, 1, 1, 1).to(images)
        stride = eps * torch.tensor(STRIDES)[chosen[1]].view(-1, 1, 1, 1).to(images)
        count = (chosen[2] + 1).view(-1, 1, 1, 1).to(images.device)
        x = images + uniform(images, 1.0, rng) * eps
        with evaluating(model):
            for done in range(int(count.max())):
                x = ascend(
                    x,
                    images,
                    lambda x: F.cross_entropy(model(x), labels),
                    eps=eps,
                    step=stride * (done < count),
                    steps=1,
                )
        return x

    def _reward(
        self,
        model: nn.Module,
        images: Images,
        labels: Labels,
        x: Images,
        lost: Objective,
        rng: Generator,
    ) -> Tensor:
        """For each image: the loss at its attack, and accuracies after a step on all of them."""
        later = copy.deepcopy(model)
        wanted = [value for value in later.parameters() if value.requires_grad]
        slopes = torch.autograd.grad(lost(later), wanted, allow_unused=True)
        with torch.no_grad():
            for value, slope in zip(wanted, slopes, strict=True):
                if slope is not None:
                    value.sub_(self.ahead * slope)
        later.eval()
        middle = [torch.full((len(images), 1), k) for k in (2, 1, self.steps - 1)]
        attacked = self._attack(later, images, labels, middle, rng)
        with torch.no_grad(), evaluating(model):
            strength = F.cross_entropy(model(x), labels, reduction="none")
            robust = (later(attacked).argmax(1) == labels).float()
            clean = (later(images).argmax(1) == labels).float()
        a, b, c = self.rewards
        return (a * strength + b * robust + c * clean).cpu()

    def _learn(self, said: Tensor, reward: Tensor) -> None:
        baseline = self.mean[0] if self.mean[1] else reward.mean()
        loss = -((reward - baseline) * said).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.mean[0] = 0.9 * baseline + 0.1 * reward.mean()
        self.mean[1] = 1

    def state_dict(self) -> dict[str, Any]:
        parts = {"strategy": self.strategy.state_dict(), "optimizer": self.optimizer.state_dict()}
        return copy.deepcopy(parts | {"mean": self.mean})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.strategy.load_state_dict(state["strategy"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.mean.copy_(state["mean"])
