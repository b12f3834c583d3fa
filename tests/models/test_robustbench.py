"""RobustBench's models, from checkpoints with random weights where RobustBench keeps them."""

import importlib.util
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from igdefense import from_robustbench, load_model
from igdefense.errors import ModelError
from igdefense.models.adapters.foreign import import_foreign
from igdefense.models.adapters.robustbench import known_ids
from igdefense.models.architectures import default_layer
from igdefense.models.penultimate import recommended_layer

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("robustbench") is None, reason="robustbench is not installed"
)
SLOW = pytest.mark.slow
PAPER = {  # every id the paper's models have, and the layer IG-Defense works on
    "cifar10/Linf/Wong2020Fast": "layer4",
    "cifar10/Linf/Zhang2019Theoretically": "relu",
    "cifar10/Linf/Wu2020Adversarial": "relu",
    "cifar10/Linf/Addepalli2022Efficient_RN18": "layer4",
    "cifar10/Linf/Addepalli2022Efficient_WRN_34_10": "relu",
    "cifar10/Linf/Addepalli2021Towards_RN18": "layer4",
    "cifar10/Linf/Addepalli2021Towards_WRN34": "relu",
    "cifar10/Linf/Jia2022LAS-AT_34_10": "relu",
    "cifar100/Linf/Wu2020Adversarial": "relu",
    "cifar100/Linf/Addepalli2022Efficient_RN18": "layer4",
    "cifar100/Linf/Addepalli2022Efficient_WRN_34_10": "relu",
    "cifar100/Linf/Addepalli2021Towards_PARN18": "bn",
    "cifar100/Linf/Addepalli2021Towards_WRN34": "relu",
    "cifar100/Linf/Jia2022LAS-AT_34_10": "relu",
    "imagenet/Linf/Wong2020Fast": "model.layer4",
    "imagenet/Linf/Salman2020Do_R50": "model.layer4",
}
QUICK = (
    "cifar10/Linf/Addepalli2022Efficient_RN18",
    "cifar10/Linf/Wong2020Fast",
    "cifar100/Linf/Addepalli2021Towards_PARN18",
)
RN18 = QUICK[0]


def entry(name: str) -> dict[str, Any]:
    dataset, threat, model = name.split("/")
    zoo = import_foreign("robustbench.model_zoo").model_dicts
    threats = next(threats for key, threats in zoo.items() if key.value == dataset)
    found: dict[str, Any] = next(m for key, m in threats.items() if key.value == threat)[model]
    return found


def saved(name: str, folder: Path) -> tuple[Path, nn.Module]:
    """A checkpoint of the package's own architecture, wrapped as training scripts do."""
    torch.manual_seed(1)
    model: nn.Module = entry(name)["model"]()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d) and module.running_mean is not None:
            module.running_mean.uniform_(-0.1, 0.1)
    state = {
        f"module.{key.removeprefix('model.')}": value
        for key, value in model.state_dict().items()
        if key not in ("mu", "sigma", "normalize.mean", "normalize.std")  # not in the real ones
    }
    path = folder / f"{name}.pt"
    path.parent.mkdir(parents=True)
    torch.save({"state_dict": state, "epoch": 3}, path)
    return path, model.eval()


def photos(name: str) -> Tensor:
    size = 64 if name.startswith("imagenet") else 32
    return torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else SLOW) for name in PAPER]
)
def test_a_checkpoint_gives_the_logits_it_gives_in_robustbench(name: str, tmp_path: Path) -> None:
    _, reference = saved(name, tmp_path)
    model = load_model(f"robustbench:{name}", folder=tmp_path)
    images = photos(name)
    with torch.no_grad():
        assert torch.equal(model(images), reference(images))
    assert default_layer(model) == f"model.{PAPER[name]}"


@pytest.mark.parametrize("name", QUICK)
def test_its_layer_is_the_one_a_forward_pass_would_show(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(name, tmp_path)
    model = load_model(f"robustbench:{name}", folder=tmp_path)
    known = default_layer(model)
    monkeypatch.setattr(model, "usual_layer", None)
    assert recommended_layer(model, photos(name)) == known


def test_robustbench_itself_loads_the_same_file_to_the_same_logits(tmp_path: Path) -> None:
    saved(RN18, tmp_path)
    theirs = import_foreign("robustbench").load_model(RN18.split("/")[2], model_dir=tmp_path)
    ours = from_robustbench("Addepalli2022Efficient_RN18", "cifar10", "Linf", model_dir=tmp_path)
    with torch.no_grad():
        assert torch.equal(ours(photos(RN18)), theirs(photos(RN18)))


def test_the_last_norm_of_a_preact_resnet_includes_its_relu(tmp_path: Path) -> None:
    name = "cifar100/Linf/Addepalli2021Towards_PARN18"
    saved(name, tmp_path)
    model = load_model(f"robustbench:{name}", folder=tmp_path)
    seen: list[Tensor] = []
    model.get_submodule("model.bn").register_forward_hook(lambda _, __, out: seen.append(out))
    with torch.no_grad():
        logits = model(photos(name))
        head = model.get_submodule("model.linear")
        assert seen[0].min() == 0
        assert_close(head(seen[0].mean((2, 3))), logits)


def test_a_worker_process_can_receive_the_model(tmp_path: Path) -> None:
    saved(RN18, tmp_path)
    model = load_model(f"robustbench:{RN18}", folder=tmp_path)
    again = pickle.loads(pickle.dumps(model))
    with torch.no_grad():
        assert torch.equal(again(photos(RN18)), model(photos(RN18)))


def test_the_folder_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IGDEFENSE_MODELS", str(tmp_path))
    with pytest.raises(ModelError, match=re.escape(str(tmp_path / f"{RN18}.pt"))):
        load_model(f"robustbench:{RN18}")


def test_a_checkpoint_of_other_classes_is_refused(tmp_path: Path) -> None:
    path, model = saved(RN18, tmp_path)
    state = model.state_dict() | {"linear.weight": torch.zeros(100, 512)}
    torch.save(state | {"linear.bias": torch.zeros(100)}, path)
    with pytest.raises(ModelError, match="a model with 100 classes, not 10"):
        load_model(f"robustbench:{RN18}", folder=tmp_path)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("this code ran",)


def test_a_checkpoint_that_asks_for_code_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"{RN18}.pt"
    path.parent.mkdir(parents=True)
    torch.save({"state_dict": {"conv1.weight": Evil()}}, path)
    with pytest.raises(ModelError, match="needs pickle"):
        load_model(f"robustbench:{RN18}", folder=tmp_path)
    assert "this code ran" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "offered"),
    [
        ("cifar10/Linf/Adepalli2022Efficient_RN18", RN18),
        ("Wong2020Fast", "cifar10/Linf/Wong2020Fast"),
        ("cifar10/linf/wong2020fast", "cifar10/Linf/Wong2020Fast"),
    ],
)
def test_an_unknown_id_is_answered_with_the_nearest(given: str, offered: str) -> None:
    with pytest.raises(ModelError, match=f"Did you mean .*{offered}"):
        load_model(f"robustbench:{given}")


def test_ensembles_are_refused_with_what_to_do() -> None:
    with pytest.raises(ModelError, match=r"no single checkpoint file .* package\.module:function"):
        load_model("robustbench:cifar10/Linf/Chen2020Adversarial")


def test_every_id_of_the_paper_is_in_the_package() -> None:
    assert set(PAPER) <= set(known_ids())


def test_no_stand_in_is_left_behind() -> None:
    import_foreign("robustbench")
    for name in ("autoattack", "autoattack.state", "gdown", "pkg_resources"):
        left = sys.modules.get(name)
        assert left is None or left.__spec__ is not None  # a real package, if it is installed


@pytest.mark.slow
def test_sodef_is_masked_after_its_ode(tmp_path: Path) -> None:
    name = "cifar10/Linf/Kang2021Stable"
    pytest.importorskip("geotorch")
    if name not in known_ids():
        pytest.skip("this copy of robustbench is older than SODEF's model")
    _, reference = saved(name, tmp_path)
    model = load_model(f"robustbench:{name}", folder=tmp_path)
    with torch.no_grad():
        assert_close(model(photos(name)), reference(photos(name)), rtol=1e-4, atol=1e-5)
    assert recommended_layer(model, photos(name)) == "model.2.0"
    pickle.loads(pickle.dumps(model))
