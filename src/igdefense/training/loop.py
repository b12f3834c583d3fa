"""One training loop for every recipe: schedule, augmentation, checkpoints, a robust check."""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from igdefense.attacks.pgd import PGD
from igdefense.attacks.threat import Linf
from igdefense.data.data import Data, Pixels
from igdefense.errors import IGDefenseError, OutputError, SettingError
from igdefense.progress import track
from igdefense.randomness import generator
from igdefense.training.augment import crop_and_flip
from igdefense.training.recipes import Recipe

log = logging.getLogger(__name__)
CHECKPOINT = "checkpoint.pt"
Watch = Callable[[nn.Module, Data], dict[str, float]]


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Learning rate 0 -> peak -> 0 in straight lines, its peak at `warm` of the steps."""

    epochs: int = 12
    batch: int = 128
    peak: float = 0.2
    warm: float = 0.4
    momentum: float = 0.9
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 1:
            raise SettingError(f"epochs and batch must be at least 1, got {self!r}.")

    def rate(self, progress: float) -> float:
        up, down = progress / self.warm, (1 - progress) / (1 - self.warm)
        return self.peak * max(0.0, min(up, down))


class DivergedError(IGDefenseError):
    """A loss that is not a number."""


class OtherTrainingError(OutputError):
    """A checkpoint that this training cannot go on from."""


def train(
    recipe: Recipe,
    model: nn.Module,
    data: Data,
    schedule: Schedule,
    out: Path,
    *,
    seed: int = 0,
    collapse: float = 0.6,
    watch: Watch | None = None,
    progress: bool | None = None,
) -> list[dict[str, float]]:
    """Train `model` in place and return the log, one record an epoch.

    After each epoch PGD-10 attacks 500 fixed training images. When its accuracy falls below
    `collapse` times the best seen (catastrophic overfitting), training stops and the best weights
    are kept. A recipe that promises no robustness brings its own `watch` instead, and none of this
    applies. `out` holds the checkpoint, so the same call resumes after an interruption with the
    same result.
    """
    out.mkdir(parents=True, exist_ok=True)
    settings = {"recipe": repr(recipe), "schedule": asdict(schedule), "seed": seed}
    settings |= {"data": data.fingerprint, "collapse": collapse}
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=schedule.peak,
        momentum=schedule.momentum,
        weight_decay=schedule.weight_decay,
        nesterov=True,
    )
    bytes = _as_bytes(data)
    watched = data[torch.randperm(len(data), generator=generator(seed, "watched"))[:500]]
    records, best = _resume(out / CHECKPOINT, settings, model, optimizer)
    for epoch in range(len(records), schedule.epochs):
        started = time.monotonic()
        mean_loss = _epoch(
            recipe, model, optimizer, bytes, data.labels, schedule, epoch, seed, progress
        )
        model.eval()
        measured = watch(model, watched) if watch else _accuracies(recipe, model, watched, seed)
        record = {"epoch": epoch + 1, "loss": mean_loss, **measured}
        records.append(record | {"seconds": round(time.monotonic() - started, 1)})
        log.info("%s", json.dumps(records[-1]))
        robust = measured.get("pgd10", 1.0)
        if robust >= collapse * max(r.get("pgd10", 1.0) for r in records):
            best = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        elif best:
            log.warning(
                "Catastrophic overfitting in epoch %d: PGD-10 accuracy fell to %.3f. "
                "Stopped; the weights of the last good epoch are kept.",
                epoch + 1,
                robust,
            )
            model.load_state_dict(best)
            break
        state = {"settings": json.dumps(settings), "records": records, "best": best}
        state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state, out / "checkpoint.part")
        (out / "checkpoint.part").replace(out / CHECKPOINT)
    model.eval()
    return records


def _epoch(
    recipe: Recipe,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    bytes: Tensor,
    labels: Tensor,
    schedule: Schedule,
    epoch: int,
    seed: int,
    progress: bool | None,
) -> float:
    rng = generator(seed, "epoch", epoch)
    batches = torch.randperm(len(bytes), generator=rng).split(schedule.batch)
    total = 0.0
    model.train()
    for step, chosen in enumerate(track(batches, f"epoch {epoch + 1}/{schedule.epochs}", progress)):
        done = (epoch + (step + 1) / len(batches)) / schedule.epochs
        for group in optimizer.param_groups:
            group["lr"] = schedule.rate(done)
        images = crop_and_flip(bytes[chosen], rng).float() / 255
        images = images.contiguous(memory_format=torch.channels_last)
        loss = recipe.loss(model, images, labels[chosen], rng)
        if not torch.isfinite(loss):
            raise DivergedError(
                f"Training diverged in epoch {epoch + 1}, step {step + 1} of {len(batches)}: "
                "the loss is not finite. Lower the peak learning rate (--peak)."
            )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(chosen)
    return total / len(bytes)


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


def _resume(
    path: Path, settings: dict[str, object], model: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[list[dict[str, float]], dict[str, Tensor]]:
    if not path.exists():
        return [], {}
    advice = "Choose another --out, or start again with --force."
    try:
        state = torch.load(path, weights_only=True)
        stored = json.loads(state["settings"])
    except Exception as error:  # a damaged or foreign file can raise anything
        raise OtherTrainingError(f"{path} is not a whole checkpoint of ours. {advice}") from error
    if stored != json.loads(json.dumps(settings)):
        raise OtherTrainingError(
            f"{path} belongs to a training with other settings ({state['settings']}). {advice}"
        )
    try:
        model.load_state_dict(state["model"])
    except RuntimeError as error:
        raise OtherTrainingError(
            f"{path} belongs to a training of another architecture. {advice}"
        ) from error
    optimizer.load_state_dict(state["optimizer"])
    log.info("Resumed %s after epoch %d.", path, len(state["records"]))
    return state["records"], state["best"]
