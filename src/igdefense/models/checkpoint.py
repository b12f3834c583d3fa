"""A checkpoint and the name of its architecture make a model; every key must fit."""

import logging
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from igdefense.errors import ModelError
from igdefense.models.architectures import (
    BASIC,
    BOTTLENECK,
    Architecture,
    Channels,
    check_normalization,
    parse,
)
from igdefense.models.resnet import WideResNet
from igdefense.models.state import State, fitted, unwrap
from igdefense.models.weights_file import read_weights

log = logging.getLogger(__name__)

PREFIXES = ("module.", "model.", "net.", "network.", "backbone.", "_orig_mod.", "1.")
NORMALIZERS = ("", "normalize.", "normalizer.", "normalization.", "normalize_layer.", "norm.", "0.")
PAIRS = (("mean", "std"), ("mu", "sigma"))
HEADS = ("linear.weight", "fc.weight")


def load_checkpoint(
    path: Path | str,
    arch: str,
    *,
    mean: Channels | None = None,
    std: Channels | None = None,
    level: int = logging.INFO,
) -> nn.Module:
    """The model in eval mode; `mean` and `std` are for files without their normalisation.

    The log says at `level` which normalisation is used.

    The number of classes is read from the file. A model without normalisation has mean (0, 0, 0)
    and std (1, 1, 1).
    """
    path, architecture = Path(path), parse(arch)
    given = check_normalization(mean, std)
    state, stored = _strip(unwrap(read_weights(path), path), path)
    if architecture.family is WideResNet:
        state = _drop_spare_block(state, path)
    mean, std = _choose(given, stored, architecture, path, level)
    heads = [state[name] for name in HEADS if name in state and state[name].ndim == 2]
    with torch.device("meta"):  # no initial weights: every tensor comes from the file
        model = architecture.build(len(heads[0]) if heads else None, mean, std)
    expected: State = model.state_dict()
    normalize = {name: expected.pop(f"normalize.{name}") for name in ("mean", "std")}
    counts = {key for key in expected if key.endswith(".num_batches_tracked")} - state.keys()
    for key in counts:  # absent from old files, unused in eval mode
        del expected[key]
    wanted = fitted(state, expected, arch, path, _advice(state, arch))
    for name, values in (("mean", mean), ("std", std)):
        wanted[f"normalize.{name}"] = torch.tensor(values).view_as(normalize[name])
    wanted |= {key: torch.tensor(0) for key in counts}
    model.load_state_dict(wanted, assign=True)
    return model.eval()


def _strip(state: State, path: Path) -> tuple[State, tuple[Channels, Channels] | None]:
    """Remove prefixes that all keys share, and take out the normalisation."""
    stored = None
    while True:
        shared = next((p for p in PREFIXES if all(key.startswith(p) for key in state)), None)
        if shared and state:
            state = {key.removeprefix(shared): value for key, value in state.items()}
            continue
        names = ((n + mean, n + std) for n in NORMALIZERS for mean, std in PAIRS)
        found = next((pair for pair in names if set(pair) <= state.keys()), None)
        if found is None or stored:
            return state, stored
        stored = _as_channels(state[found[0]], path), _as_channels(state[found[1]], path)
        state = {key: value for key, value in state.items() if key not in found}


def _as_channels(tensor: Tensor, path: Path) -> Channels:
    if tuple(tensor.shape) not in ((3,), (3, 1, 1), (1, 3, 1, 1)):
        raise ModelError(
            f"{path}: its normalisation has shape {tuple(tensor.shape)}; expected 3 channels."
        )
    return tuple(tensor.flatten().float().tolist())


def _drop_spare_block(state: State, path: Path) -> State:
    """TRADES' WideResNet stores a `sub_block1` that its forward pass never uses."""
    kept = {key: value for key, value in state.items() if not key.startswith("sub_block1.")}
    if len(kept) < len(state):
        log.info("%s: %d unused sub_block1.* keys dropped.", path, len(state) - len(kept))
    return kept


def _choose(
    given: tuple[Channels, Channels] | None,
    stored: tuple[Channels, Channels] | None,
    architecture: Architecture,
    path: Path,
    level: int,
) -> tuple[Channels, Channels]:
    if given and stored:
        pairs = zip((*given[0], *given[1]), (*stored[0], *stored[1]), strict=True)
        if any(abs(a - b) > 1e-6 for a, b in pairs):
            raise ModelError(
                f"{path} holds its own normalisation, mean {_round(stored[0])} and std "
                f"{_round(stored[1])}: leave out mean and std."
            )
    source = "stored in the file" if stored else "as given" if given else "the usual one"
    mean, std = stored or given or architecture.normalization
    text = "%s: normalisation %s, mean %s, std %s."
    log.log(level, text, path, source, _round(mean), _round(std))
    check_normalization(mean, std)
    return tuple(map(float, mean)), tuple(map(float, std))


def _advice(state: State, arch: str) -> str:
    guess = guess_arch(state)
    if guess and guess != arch:
        return f"Its keys look like {guess}: try --arch {guess}."
    return "For another architecture write a function and load it by package.module:function."


def guess_arch(state: Mapping[str, Tensor]) -> str | None:
    """The architecture that the names and widths of these weights suggest."""

    def depth(stage: str) -> int:
        return len({m[1] for key in state if (m := re.match(rf"{stage}\.(\d+)\.", key))})

    stem, first = state.get("conv1.weight"), state.get("block1.layer.0.conv1.weight")
    if first is not None and first.ndim == 4:
        return f"wrn-{6 * depth('block1.layer') + 4}-{max(1, len(first) // 16)}"
    bottleneck = "layer1.0.conv3.weight" in state
    if stem is None or stem.ndim != 4 or stem.shape[-1] != (7 if bottleneck else 3):
        return None
    sizes = tuple(depth(f"layer{stage}") for stage in (1, 2, 3, 4))
    table = BOTTLENECK if bottleneck else BASIC
    name = next((f"resnet{number}" for number, depths in table.items() if depths == sizes), None)
    if name is None:
        return None
    preact = not bottleneck and "bn1.weight" not in state
    return ("preact-" if preact else "") + name + (f"-w{len(stem)}" if len(stem) != 64 else "")


def _round(numbers: Channels) -> tuple[float, ...]:
    return tuple(round(float(number), 4) for number in numbers)
