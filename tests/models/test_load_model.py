"""Models by string."""

import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from igdefense.errors import ModelError
from igdefense.models import build, embedded_card, load_model

MODULE = """
from torch import nn
number = 3
def good(): return nn.Linear(2, 2).eval()
def training(): return nn.Linear(2, 2)
def partly():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout()).eval()
    model[1].train()
    return model
def other(): return "weights"
def failing(): raise ValueError("no such file\\nsecond line")
def stopping(): raise SystemExit(3)
def asking(path): return nn.Linear(2, 2).eval()
class Nested:
    make = staticmethod(good)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current folder, under a name of its own."""
    name = f"mine_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return name


def refusal(spec: str, arch: str | None = None) -> str:
    with pytest.raises(ModelError) as error:
        load_model(spec, arch)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("function", ["good", "Nested.make"])
def test_a_function_of_the_current_folder_makes_the_model(module: str, function: str) -> None:
    before = list(sys.path)
    assert isinstance(load_model(f"{module}:{function}"), nn.Linear)
    assert sys.path == before


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("training", "Linear is in train mode, where"),
        ("partly", "Sequential is in train mode in part (layer '1')"),
        ("other", "returned a str; expected an nn.Module"),
        ("failing", "failed with ValueError: no such file."),
        ("stopping", "failed with SystemExit: 3."),
        ("asking", "failed with TypeError: asking() missing 1 required"),
        ("number", "is a int; expected a function"),
        ("goood", "has no 'goood'. Did you mean good?"),
        ("Nested.zzz", "has no 'Nested.zzz'. Check its spelling."),
    ],
)
def test_a_function_that_gives_no_model_is_refused(module: str, function: str, says: str) -> None:
    assert says in refusal(f"{module}:{function}")


def test_a_refused_model_is_told_to_call_eval(module: str) -> None:
    assert "call .eval() on it" in refusal(f"{module}:training")


def test_a_missing_module_is_named() -> None:
    assert "There is no module 'no_such_module_here'" in refusal("no_such_module_here.sub:make")


def test_a_module_that_lacks_another_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needs_more.py").write_text("import not_installed_at_all\n")
    monkeypatch.chdir(tmp_path)
    assert "Importing needs_more failed with ModuleNotFoundError: No module named 'not_" in refusal(
        "needs_more:make"
    )


def test_a_module_with_an_error_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_syntax.py").write_text("def make(:\n")
    monkeypatch.chdir(tmp_path)
    assert "Importing broken_syntax failed with SyntaxError" in refusal("broken_syntax:make")


def test_a_checkpoint_comes_with_its_architecture(tmp_path: Path) -> None:
    model = build("resnet18-w2", 4).eval()
    save_file(model.state_dict(), tmp_path / "m.safetensors")
    loaded = load_model(str(tmp_path / "m.safetensors"), "resnet18-w2")
    torch.testing.assert_close(loaded.state_dict(), model.state_dict(), rtol=0, atol=0)
    assert "name its architecture with --arch" in refusal(str(tmp_path / "m.safetensors"))


def test_a_given_normalisation_reaches_the_checkpoint(tmp_path: Path) -> None:
    state = build("resnet18-w2").state_dict()
    del state["normalize.mean"], state["normalize.std"]
    save_file(state, tmp_path / "m.safetensors")
    spec = str(tmp_path / "m.safetensors")
    model = load_model(spec, "resnet18-w2", mean=(0, 0, 0), std=(1, 1, 2))
    assert model.get_buffer("normalize.std").flatten().tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    ("spec", "arch", "says"),
    [
        ("embeded", None, "No model 'embeded'; expected 'embedded', a name of"),
        ("missing.pt", "resnet18", "missing.pt is missing"),
        ("embedded", "resnet18", "arch, mean and std are for checkpoint files"),
        ("torch.nn:Identity", "resnet18", "arch, mean and std are for checkpoint files"),
    ],
)
def test_a_wrong_string_is_refused(spec: str, arch: str | None, says: str) -> None:
    assert says in refusal(spec, arch)


def test_the_embedded_model_is_a_classifier_of_ten_classes_with_a_card() -> None:
    model = load_model("embedded")
    assert not any(part.training for part in model.modules())
    assert model(torch.rand(2, 3, 32, 32)).shape == (2, 10)
    assert embedded_card()
