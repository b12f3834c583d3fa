"""One training loop for every recipe: schedule, augmentation, checkpoints, a robust check."""

import json
import logging
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from igdefense.attacks.pgd import PGD
from igdefense.attacks.threat import Linf
from igdefense.data.data import Data, Pixels
from igdefense.errors import IGDefenseError
from igdefense.progress import track
from igdefense.randomness import generator
from igdefense.training.augment import crop_and_flip
from igdefense.training.average import Average
from igdefense.training.board import Board
from igdefense.training.recipe import Recipe, Step
from igdefense.training.schedule import Schedule
from igdefense.training.state import CHECKPOINT, OtherTrainingError, State
from igdefense.training.watchdog import Watchdog

__all__ = ["CHECKPOINT", "DivergedError", "OtherTrainingError", "Schedule", "train"]
log = logging.getLogger(__name__)
Watch = Callable[[nn.Module, Data], dict[str, float]]
ENOUGH_STEPS, ENOUGH_IMAGES = 100, 100  # to tell a model that learns nothing from a short epoch


class DivergedError(IGDefenseError):
    """A training that leads nowhere: a loss that is not a number, or accuracy at chance."""


def train(
    recipe: Recipe,
    model: nn.Module,
    data: Data,
    schedule: Schedule,
    out: Path,
    *,
    seed: int = 0,
    watchdog: Watchdog | None = None,
    ema: float | None = None,
    watch: Watch | None = None,
    tensorboard: Path | None = None,
    checkpoint_every: float = 300.0,
    progress: bool | None = None,
) -> list[dict[str, float]]:
    """Train `model` in place and return the log, one record an epoch.

    A recipe that promises no robustness brings its own `watch`. With `ema` the moving average of
    the weights is measured and kept. `out` holds the checkpoint, written after each epoch and every
    `checkpoint_every` seconds, so the same call resumes after an interruption with the same result.
    """
    watchdog = watchdog or Watchdog()
    out.mkdir(parents=True, exist_ok=True)
    settings = {"recipe": repr(recipe), "schedule": asdict(schedule), "seed": seed, "ema": ema}
    written = json.dumps(settings | {"data": data.fingerprint, "watchdog": asdict(watchdog)})
    data, watched = watchdog.split(data, seed)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=schedule.peak,
        momentum=schedule.momentum,
        weight_decay=schedule.weight_decay,
        nesterov=True,
    )
    state = State(recipe, model, optimizer, Average(model, ema) if ema is not None else None)
    state.resume(out / CHECKPOINT, written)
    epoch = _Epoch(state, schedule, seed, _as_bytes(data), data.labels, progress)
    board = Board(tensorboard, len(state.records) * epoch.length + state.done)
    try:
        for number in range(len(state.records), schedule.epochs):
            mean_loss = epoch.run(number, board, checkpoint_every, out / CHECKPOINT, written)
            started = time.monotonic()
            model.eval()
            shown = state.shown
            measured = watch(shown, watched) if watch else _accuracies(recipe, shown, watched, seed)
            record = {"epoch": number + 1, "loss": mean_loss, **measured}
            seconds = state.seconds + time.monotonic() - started
            state.records.append(record | {"seconds": round(seconds, 1)})
            log.info("%s", json.dumps(state.records[-1]))
            board.write(record, (number + 1) * epoch.length)
            _check_learned(shown, measured, watched, number, epoch.length)
            if watchdog.judge(state):
                break
            state.done, state.total, state.seconds = 0, 0.0, 0.0
            state.save(out / CHECKPOINT, written)
    finally:
        board.close()
    if state.best:
        model.load_state_dict(state.best)
    model.eval()
    return state.records


@dataclass
class _Epoch:
    """One pass over the data, which can begin in its middle."""

    state: State
    schedule: Schedule
    seed: int
    bytes: Tensor
    labels: Tensor
    progress: bool | None

    @property
    def length(self) -> int:
        return -(-len(self.bytes) // self.schedule.batch)

    def run(self, epoch: int, board: Board, every: float, path: Path, settings: str) -> float:
        state, schedule = self.state, self.schedule
        rng = generator(self.seed, "epoch", epoch)
        batches = torch.randperm(len(self.bytes), generator=rng).split(schedule.batch)
        if state.rng is not None:
            rng.set_state(state.rng)
            state.rng = None
        started = saved = time.monotonic()
        before = state.seconds
        state.model.train()
        rest = batches[state.done :]
        for chosen in track(rest, f"epoch {epoch + 1}/{schedule.epochs}", self.progress):
            loss = self._step(epoch, chosen, rng)
            state.done += 1
            state.total += loss * len(chosen)
            now = time.monotonic()
            state.seconds = before + now - started
            number = epoch * self.length + state.done
            if state.done % 20 == 0:
                board.write({"step loss": loss, "rate": self._rate(number)}, number)
            if now - saved >= every and state.done < self.length:
                state.save(path, settings, rng)
                saved = now
        return state.total / len(self.bytes)

    def _step(self, epoch: int, chosen: Tensor, rng: torch.Generator) -> float:
        state, number = self.state, epoch * self.length + self.state.done
        for group in state.optimizer.param_groups:
            group["lr"] = self._rate(number + 1)
        images = crop_and_flip(self.bytes[chosen], rng).float() / 255
        images = images.contiguous(memory_format=torch.channels_last)
        step = Step(number, (number + 1) / (self.length * self.schedule.epochs))
        lost = state.recipe.objective(state.model, images, self.labels[chosen], step, rng)
        loss = lost(state.model)
        if not torch.isfinite(loss):
            raise _diverged(epoch, state.done + 1, self.length, "the loss is not finite")
        state.optimizer.zero_grad()
        loss.backward()
        state.optimizer.step()
        if state.average:
            state.average.update(state.model)
        return loss.item()

    def _rate(self, number: int) -> float:
        epoch, step = divmod(number - 1, self.length)
        return self.schedule.rate((epoch + (step + 1) / self.length) / self.schedule.epochs)


def _diverged(epoch: int, step: int, steps: int, why: str) -> DivergedError:
    return DivergedError(
        f"Training diverged in epoch {epoch + 1}, step {step} of {steps}: {why}. "
        "Lower the peak learning rate (--peak)."
    )


def _check_learned(
    model: nn.Module, measured: dict[str, float], watched: Data, epoch: int, steps: int
) -> None:
    """Refuse weights that are no numbers, and a model that has learned nothing in a long epoch."""
    if not all(value.isfinite().all() for value in model.state_dict().values()):
        raise _diverged(epoch, steps, steps, "weights are not finite")
    chance = 1 / len(watched.class_names)
    above = chance + 3 * math.sqrt(chance * (1 - chance) / len(watched))
    clean = measured.get("clean", 1.0)
    if clean <= above and steps >= ENOUGH_STEPS and len(watched) >= ENOUGH_IMAGES:
        why = f"{clean:.1%} of the watched images are right, no better than chance ({chance:.1%})"
        raise _diverged(epoch, steps, steps, why)


def _accuracies(recipe: Recipe, model: nn.Module, data: Data, seed: int) -> dict[str, float]:
    attack = PGD(threat=Linf(recipe.eps), steps=10)
    clean = robust = 0
    for images, labels in data.batches(250):
        x = attack(model, images, labels, rng=generator(seed, "watch"))
        with torch.no_grad():
            clean += int((model(images).argmax(1) == labels).sum())
            robust += int((model(x).argmax(1) == labels).sum())
    return {"clean": clean / len(data), "pgd10": robust / len(data)}


def _as_bytes(data: Data) -> Tensor:
    if isinstance(data.images, Pixels):
        return data.images.bytes
    return torch.cat([(images * 255).round().byte() for images, _ in data.batches(1000)])
