"""What a defense costs at inference, in forward passes of its base model."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from igdefense import __version__
from igdefense.analysis.passes import Passes, count_passes
from igdefense.errors import DataError, SettingError
from igdefense.types import Images

Work = Callable[[], object]
LONG_ENOUGH = 0.1  # seconds that a work runs in a round, so that the clock tells


@dataclass(frozen=True)
class Cost:
    """One defense at one batch size; times are medians over the rounds."""

    defense: str
    batch: int
    seconds: float  # of one call
    ratio: float  # to the base model's call in the same round
    spread: tuple[float, float]  # of the ratio, lowest and highest round
    passes: Passes
    gradient_seconds: float | None = None  # of one call and its gradient at the image

    @property
    def per_image(self) -> float:
        """Milliseconds."""
        return self.seconds / self.batch * 1000


@dataclass(frozen=True)
class Costs:
    """Every defense at every batch size, measured in one run."""

    rows: tuple[Cost, ...]
    rounds: int
    threads: int

    def table(self) -> str:
        """One line for each defense and batch size."""
        width = max(len(row.defense) for row in self.rows)
        gradients = any(row.gradient_seconds is not None for row in self.rows)
        head = f"{'':<{width}}  batch  x forward pass [min, max]  forward  backward  ms/image"
        lines = [
            f"Medians of {self.rounds} rounds, {self.threads} thread{'s' * (self.threads > 1)}; "
            "forward and backward passes of the base model are counted",
            head + ("  with gradient" if gradients else ""),
        ]
        for row in self.rows:
            low, high = row.spread
            ratio = f"{row.ratio:.2f} [{low:.2f}, {high:.2f}]"
            line = (
                f"{row.defense:<{width}}  {row.batch:>5}  {ratio:<25}  {row.passes.forward:>7.2f}  "
                f"{row.passes.backward:>8.2f}  {row.per_image:>8.2f}"
            )
            if row.gradient_seconds is not None:
                line += f"  {row.gradient_seconds / row.batch * 1000:>13.2f}"
            lines.append(line)
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Every number, with the conditions it was measured under."""
        about = {"igdefense": __version__, "torch": torch.__version__, "rounds": self.rounds}
        return about | {"threads": self.threads, "rows": [asdict(row) for row in self.rows]}


def cost(
    base: nn.Module,
    defenses: Mapping[str, nn.Module],
    images: Images,
    *,
    batches: Sequence[int] = (1, 32),
    rounds: int = 7,
    gradients: bool = False,
) -> Costs:
    """Time the base model and each defense in turns, so that a slow moment meets all of them.

    In each round every one runs once, in an order that moves on from round to round; a round's
    ratio is to the base model's time in that round. With `gradients`, a call and its gradient at
    the image, an attack's step, is timed too.
    """
    if rounds < 1:
        raise SettingError(f"rounds = {rounds}; at least 1 is needed.")
    if not batches or min(batches) < 1:
        raise SettingError(f"batches = {list(batches)}; each needs at least 1 image.")
    if max(batches) > len(images):
        raise DataError(f"A batch of {max(batches)} needs as many images, got {len(images)}.")
    models = {"base model": base, **defenses}
    rows: list[Cost] = []
    for batch in batches:
        x = images[:batch]
        if not x.is_cuda:  # faster, and what an evaluation does
            x = x.contiguous(memory_format=torch.channels_last)
        times = in_turns({name: _forward(model, x) for name, model in models.items()}, rounds)
        slopes = {name: _gradient(model, x) for name, model in models.items()}
        steps = in_turns(slopes, max(1, rounds // 2)) if gradients else {}
        for name, model in models.items():
            pairs = zip(times[name], times["base model"], strict=True)
            ratios = [mine / one for mine, one in pairs]
            rows.append(
                Cost(
                    name,
                    batch,
                    median(times[name]),
                    median(ratios),
                    (min(ratios), max(ratios)),
                    count_passes(model, base, x),
                    median(steps[name]) if gradients else None,
                )
            )
    return Costs(tuple(rows), rounds, torch.get_num_threads())


def in_turns(works: Mapping[str, Work], rounds: int) -> dict[str, list[float]]:
    """The seconds of a call of each work in each round; all run once before, unmeasured.

    A short work is called several times in a round, and its mean is taken.
    """
    names = list(works)
    times: dict[str, list[float]] = {name: [] for name in names}
    for work in works.values():
        work()
    calls = {name: min(20, max(1, int(LONG_ENOUGH / _seconds(works[name])))) for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(_seconds(works[name], calls[name]))
    return times


def _seconds(work: Work, calls: int = 1) -> float:
    started = time.perf_counter()
    for _ in range(calls):
        work()
    return max(time.perf_counter() - started, 1e-9) / calls


def _forward(model: nn.Module, images: Images) -> Work:
    def work() -> None:
        with torch.no_grad():
            model(images)
        _finish(images)

    return work


def _gradient(model: nn.Module, images: Images) -> Work:
    def work() -> None:
        with torch.enable_grad():
            x = images.detach().clone().requires_grad_()
            logits: Tensor = model(x)
            losses = F.cross_entropy(logits, logits.detach().argmin(1), reduction="sum")
        torch.autograd.grad(losses, x)
        _finish(images)

    return work


def _finish(images: Images) -> None:
    if images.is_cuda:  # kernels run on after the call has returned
        torch.cuda.synchronize(images.device)
