"""A checkpoint comes back as the model that was saved, or not at all."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from igdefense.errors import ModelError
from igdefense.models import build, load_checkpoint, weights_fingerprint
from igdefense.models.architectures import NAMES
from igdefense.models.checkpoint import guess_arch

State = dict[str, Tensor]
ARCHES = ("resnet18-w2", "resnet34-w2", "preact-resnet18-w2", "wrn-10-1", "resnet50-w2")
MEAN, STD = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)


def make(arch: str, classes: int = 5) -> nn.Module:
    """A model whose every tensor, batch statistics too, differs from a fresh one's."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build(arch, classes, MEAN, STD).eval()
        for name, buffer in model.named_buffers():
            if "running" in name:
                buffer.uniform_(0.5, 1.5)
    return model


def bare(state: State) -> State:
    return {key: value for key, value in state.items() if not key.startswith("normalize.")}


def prefixed(state: State, prefix: str) -> State:
    return {prefix + key: value for key, value in state.items()}


def flat(state: State, mean: str, std: str, *shape: int) -> State:
    moments = {mean: torch.tensor(MEAN).view(*shape), std: torch.tensor(STD).view(*shape)}
    return {**moments, **bare(state)}


WRAPPERS: dict[str, Callable[[State], dict[str, Any]]] = {
    "plain": lambda s: s,
    "state_dict": lambda s: {"state_dict": s, "epoch": 3, "best_acc": 0.5},
    "model_state_dict": lambda s: {"model_state_dict": s, "optimizer": {"lr": 0.1}},
    "model": lambda s: {"model": s},
    "net": lambda s: {"net": s, "acc": 94.1},
    "ema": lambda s: {"ema": s},
    "twice": lambda s: {"model": {"state_dict": prefixed(s, "module.")}},
    "module.": lambda s: prefixed(s, "module."),
    "module.model.": lambda s: prefixed(s, "module.model."),
    "net.": lambda s: prefixed(s, "net."),
    "backbone.": lambda s: prefixed(s, "backbone."),
    "_orig_mod.": lambda s: prefixed(s, "_orig_mod."),
    "mean, std": lambda s: flat(s, "mean", "std", 3),
    "mu, sigma": lambda s: flat(s, "mu", "sigma", 1, 3, 1, 1),
    "normalizer": lambda s: flat(s, "normalizer.mean", "normalizer.std", 3, 1, 1),
    "sequential": lambda s: {
        **prefixed(bare(s), "1."),
        "0.mean": torch.tensor(MEAN),
        "0.std": torch.tensor(STD),
    },
    "normalize and module.model": lambda s: {
        **prefixed(bare(s), "module.model."),
        "module.normalize.mean": torch.tensor(MEAN),
        "module.normalize.std": torch.tensor(STD),
    },
    "old, without batch counts": lambda s: {k: v for k, v in s.items() if "tracked" not in k},
    "double precision": lambda s: {k: v.double() if v.ndim else v for k, v in s.items()},
}


@pytest.fixture(params=ARCHES, scope="module")
def saved(request: pytest.FixtureRequest) -> tuple[str, nn.Module]:
    return request.param, make(request.param)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_every_architecture_returns_unchanged_from_every_wrapper(
    saved: tuple[str, nn.Module], wrapper: str, tmp_path: Path
) -> None:
    arch, model = saved
    torch.save(WRAPPERS[wrapper](model.state_dict()), tmp_path / "m.pt")
    loaded = load_checkpoint(tmp_path / "m.pt", arch)
    ours = {k: v for k, v in loaded.state_dict().items() if "tracked" not in k}
    theirs = {k: v for k, v in model.state_dict().items() if "tracked" not in k}
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    assert not loaded.training


def test_a_loaded_model_gives_the_same_logits(saved: tuple[str, nn.Module], tmp_path: Path) -> None:
    arch, model = saved
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    save_file(model.state_dict(), tmp_path / "m.safetensors")
    loaded = load_checkpoint(tmp_path / "m.safetensors", arch)
    torch.testing.assert_close(loaded(images), model(images), rtol=0, atol=0)
    assert loaded(images).requires_grad


def test_the_fingerprint_survives_a_round_trip(
    saved: tuple[str, nn.Module], tmp_path: Path
) -> None:
    arch, model = saved
    save_file(model.state_dict(), tmp_path / "m.safetensors")
    loaded = load_checkpoint(tmp_path / "m.safetensors", arch)
    assert weights_fingerprint(loaded) == weights_fingerprint(model)


def test_the_fingerprint_sees_the_smallest_change_of_one_weight() -> None:
    model = make("resnet18-w2")
    before = weights_fingerprint(model)
    weight = model.get_parameter("layer3.0.conv1.weight").data
    weight[0, 0, 0, 0] = torch.nextafter(weight[0, 0, 0, 0], torch.tensor(9.0))
    assert len(before) == 16
    assert weights_fingerprint(model) != before


def test_the_fingerprint_sees_the_normalisation() -> None:
    one, other = make("resnet18-w2"), make("resnet18-w2")
    other.get_buffer("normalize.std").mul_(1.001)
    assert weights_fingerprint(one) != weights_fingerprint(other)


def save(state: dict[str, Any], folder: Path) -> Path:
    torch.save(state, folder / "m.pth.tar")
    return folder / "m.pth.tar"


def test_a_file_without_normalisation_gets_the_usual_one_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = save(bare(make("wrn-10-1").state_dict()), tmp_path)
    with caplog.at_level(logging.INFO):
        model = load_checkpoint(path, "wrn-10-1")
    assert model.get_buffer("normalize.mean").flatten().tolist() == pytest.approx(
        [0.4914, 0.4822, 0.4465]
    )
    assert "normalisation the usual one, mean (0.4914, 0.4822, 0.4465)" in caplog.text


def test_a_file_without_normalisation_takes_the_given_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = save(bare(make("wrn-10-1").state_dict()), tmp_path)
    with caplog.at_level(logging.INFO):
        model = load_checkpoint(path, "wrn-10-1", mean=(0, 0, 0), std=(1, 1, 1))
    pixels = torch.rand(2, 3, 4, 4)
    torch.testing.assert_close(model.get_submodule("normalize")(pixels), pixels)
    assert "normalisation as given" in caplog.text


def test_a_given_normalisation_may_not_contradict_the_file(tmp_path: Path) -> None:
    path = save(make("wrn-10-1").state_dict(), tmp_path)
    with pytest.raises(ModelError, match=r"its own normalisation, mean \(0.1, 0.2, 0.3\)"):
        load_checkpoint(path, "wrn-10-1", mean=(0, 0, 0), std=(1, 1, 1))
    load_checkpoint(path, "wrn-10-1", mean=MEAN, std=STD)


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        ({"mean": torch.zeros(1), "std": torch.ones(1)}, "shape (1,)"),
        ({"mean": torch.zeros(3), "std": torch.zeros(3)}, "std above 0"),
        ({"normalize.mean": torch.zeros(3)}, "1 unexpected: normalize.mean"),
    ],
)
def test_a_strange_normalisation_is_refused(stored: State, says: str, tmp_path: Path) -> None:
    path = save(bare(make("wrn-10-1").state_dict()) | stored, tmp_path)
    with pytest.raises(ModelError) as error:
        load_checkpoint(path, "wrn-10-1")
    assert says in str(error.value)


def test_the_unused_block_of_trades_is_dropped_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = make("wrn-10-1").state_dict()
    spare = {f"sub_{k}": v + 1 for k, v in state.items() if k.startswith("block1.")}
    path = save(prefixed(state | spare, "module."), tmp_path)
    with caplog.at_level(logging.INFO):
        model = load_checkpoint(path, "wrn-10-1")
    torch.testing.assert_close(model.state_dict(), state, rtol=0, atol=0)
    assert f"{len(spare)} unused sub_block1.* keys dropped" in caplog.text


@pytest.mark.parametrize("arch", ["resnet18-w2", "wrn-10-1", "resnet50-w2"])
def test_the_file_sets_the_number_of_classes(arch: str, tmp_path: Path) -> None:
    path = save(make(arch, classes=23).state_dict(), tmp_path)
    assert load_checkpoint(path, arch)(torch.rand(1, 3, 32, 32)).shape == (1, 23)


def refusal(state: dict[str, Any], arch: str, folder: Path) -> str:
    with pytest.raises(ModelError) as error:
        load_checkpoint(save(state, folder), arch)
    return str(error.value)


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    state = make("resnet18-w2").state_dict()
    del state["layer2.0.bn1.weight"]
    assert "1 missing: layer2.0.bn1.weight." in refusal(state, "resnet18-w2", tmp_path)


def test_unexpected_keys_are_named_five_at_most(tmp_path: Path) -> None:
    state = make("resnet18-w2").state_dict() | {f"odd{i}": torch.zeros(1) for i in range(7)}
    says = refusal(state, "resnet18-w2", tmp_path)
    assert "7 unexpected: odd0, odd1, odd2, odd3, odd4 and 2 more." in says


def test_another_shape_is_named_with_both_shapes(tmp_path: Path) -> None:
    state = make("resnet18-w2").state_dict() | {"bn1.weight": torch.zeros(3)}
    assert "1 of another shape: bn1.weight ((3,), expected (2,))" in refusal(
        state, "resnet18-w2", tmp_path
    )


def test_a_whole_number_weight_is_refused(tmp_path: Path) -> None:
    state = make("resnet18-w2").state_dict() | {"bn1.weight": torch.ones(2, dtype=torch.int64)}
    assert "bn1.weight ((2,) int64, expected (2,))" in refusal(state, "resnet18-w2", tmp_path)


@pytest.mark.parametrize("true", ["resnet18-w2", "preact-resnet18-w2", "wrn-10-1", "resnet50-w2"])
def test_the_wrong_architecture_is_refused_with_the_right_one(true: str, tmp_path: Path) -> None:
    assert f"try --arch {true}." in refusal(make(true).state_dict(), "resnet34", tmp_path)


@pytest.mark.parametrize("arch", NAMES)
def test_the_keys_tell_the_architecture(arch: str) -> None:
    with torch.device("meta"):
        assert guess_arch(build(arch).state_dict()) == arch


def test_foreign_keys_suggest_nothing_but_the_function(tmp_path: Path) -> None:
    says = refusal({"w": torch.zeros(2)}, "resnet18", tmp_path)
    assert "package.module:function" in says
    assert "--arch" not in says


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(bad: float, tmp_path: Path) -> None:
    state = make("resnet18-w2").state_dict()
    state["layer1.0.conv1.weight"][0, 0, 0, 0] = bad
    says = refusal(state, "resnet18-w2", tmp_path)
    assert "NaN or infinite weights in layer1.0.conv1.weight" in says


def test_of_two_sets_of_weights_the_log_says_which_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = make("resnet18-w2").state_dict()
    other = {key: value + 1 for key, value in state.items()}
    model = load_checkpoint(save({"ema": other, "state_dict": state}, tmp_path), "resnet18-w2")
    torch.testing.assert_close(model.state_dict(), state, rtol=0, atol=0)
    assert "holds state_dict and ema; 'state_dict' is used" in caplog.text


def test_a_dict_without_weights_is_refused(tmp_path: Path) -> None:
    assert "epoch, lr are no tensors" in refusal({"epoch": 3, "lr": 0.1}, "resnet18", tmp_path)
    assert "it is empty" in refusal({"state_dict": {}}, "resnet18", tmp_path)


def test_a_dict_that_holds_itself_is_refused(tmp_path: Path) -> None:
    endless: dict[str, Any] = {"epoch": 1}
    endless["model"] = endless
    assert "is not a state dict" in refusal(endless, "resnet18", tmp_path)
