"""timm, torchvision and transformers by string; what is foreign stays outside."""

import importlib
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.testing import assert_close

from igdefense import defend, leave_one_out, load_data, load_defense, load_model
from igdefense.data import Data
from igdefense.errors import ModelError
from igdefense.models.adapters import foreign
from igdefense.models.adapters.foreign import import_foreign
from igdefense.models.adapters.spec import Spec
from igdefense.models.architectures import default_layer

TINY = "convnext_atto?depths=[1,1,1,1]&dims=[8,8,8,12]&num_classes=10"
MEAN, STD = [0.4, 0.5, 0.6], [0.2, 0.25, 0.3]


@pytest.fixture
def photos() -> Tensor:
    return torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(3))


def channels(values: list[float] | tuple[float, ...]) -> Tensor:
    return torch.tensor(values).view(1, 3, 1, 1)


def test_a_string_has_a_name_and_options() -> None:
    spec = Spec.of("vit?pretrained=false&seed=3&depth=2&dims=[1, 2]&act=gelu&flag=true")
    assert (spec.name, spec.pretrained, spec.seed) == ("vit", False, 3)
    assert spec.options == {"depth": 2, "dims": [1, 2], "act": "gelu", "flag": True}


@pytest.mark.parametrize("bad", ["vit?depth", "vit?pretrained=maybe", "vit?a b=3"])
def test_strange_options_are_refused(bad: str) -> None:
    with pytest.raises(ModelError, match=r"is no option|is true or false"):
        Spec.of(bad)


def test_timms_preprocessing_is_inside_the_model(photos: Tensor) -> None:
    model = load_model(f"timm:{TINY}&pretrained=false")
    inner = model.get_submodule("model")
    about: Any = inner.pretrained_cfg
    with torch.no_grad():
        expected = inner((photos - channels(about["mean"])) / channels(about["std"]))
        assert torch.equal(model(photos), expected)


def test_random_weights_depend_on_the_seed_alone(photos: Tensor) -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    with torch.no_grad():
        a, b = (load_model(f"timm:{TINY}&pretrained=false")(photos) for _ in range(2))
        c = load_model(f"timm:{TINY}&pretrained=false&seed=1")(photos)
    assert torch.equal(a, b)
    assert not torch.allclose(a, c)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_timm_weights_come_from_the_folder(suffix: str, photos: Tensor, tmp_path: Path) -> None:
    random = load_model(f"timm:{TINY}&pretrained=false&seed=5")
    state = {
        key: value.clone() for key, value in random.get_submodule("model").state_dict().items()
    }
    path = tmp_path / "timm" / f"convnext_atto{suffix}"
    path.parent.mkdir()
    save_file(state, path) if suffix == ".safetensors" else torch.save({"state_dict": state}, path)
    with torch.no_grad():
        assert torch.equal(load_model(f"timm:{TINY}", folder=tmp_path)(photos), random(photos))
    with pytest.raises(ModelError, match=r"does not fit timm:.*head\.fc\.weight"):
        load_model(f"timm:{TINY.replace('=10', '=7')}", folder=tmp_path)


def test_a_folder_of_timm_is_read_with_its_own_preprocessing(
    photos: Tensor, tmp_path: Path
) -> None:
    options = {"depths": [1, 1, 1, 1], "dims": [8, 8, 8, 12]}
    random = load_model(f"timm:{TINY}&pretrained=false&seed=5")
    inner = random.get_submodule("model")
    config = {"architecture": "convnext_atto", "num_classes": 10, "model_args": options}
    config["pretrained_cfg"] = {"mean": MEAN, "std": STD, "input_size": [3, 32, 32]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file({k: v.clone() for k, v in inner.state_dict().items()}, tmp_path / "model.safetensors")
    model = load_model(f"timm:{tmp_path}")
    with torch.no_grad():
        assert_close(model(photos), inner((photos - channels(MEAN)) / channels(STD)))


def test_torchvision_weights_come_from_the_folder(photos: Tensor, tmp_path: Path) -> None:
    spec = "torchvision:squeezenet1_1?num_classes=4"
    random = load_model(f"{spec}&pretrained=false&seed=5")
    path = tmp_path / "torchvision" / "squeezenet1_1.pth"
    path.parent.mkdir()
    torch.save(random.get_submodule("model").state_dict(), path)
    model = load_model(spec, folder=tmp_path)
    with torch.no_grad():
        assert torch.equal(model(photos), random(photos))
        expected = random.get_submodule("model")(
            (photos - channels((0.485, 0.456, 0.406))) / channels((0.229, 0.224, 0.225))
        )
        assert_close(model(photos), expected)


def transformers_folder(folder: Path) -> nn.Module:
    transformers = import_foreign("transformers")
    with torch.random.fork_rng():
        torch.manual_seed(2)
        config = transformers.ViTConfig(
            **{"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2},
            **{"intermediate_size": 16, "image_size": 32, "patch_size": 8, "num_labels": 10},
        )
        net: Any = transformers.ViTForImageClassification(config).eval()
    transformers.utils.logging.disable_progress_bar()
    net.save_pretrained(folder)
    settings = {"image_mean": MEAN, "image_std": STD, "image_processor_type": "ViTImageProcessor"}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings))
    found: nn.Module = net
    return found


def test_a_transformers_classifier_is_cut_before_its_head(photos: Tensor, tmp_path: Path) -> None:
    net = transformers_folder(tmp_path)
    model = load_model(f"transformers:{tmp_path}")
    with torch.no_grad():
        expected = net((photos - channels(MEAN)) / channels(STD)).logits
        assert_close(model(photos), expected)
    assert default_layer(model) == "model"
    data = Data(photos.repeat(5, 1, 1, 1), torch.arange(10))
    ranking = leave_one_out(model, data, "model", progress=False)
    head = model.get_submodule("head")
    assert isinstance(head, nn.Linear)
    seen: list[Tensor] = []
    model.get_submodule("model").register_forward_hook(lambda _, __, out: seen.append(out))
    with torch.no_grad():
        model(data.images[:])
    assert_close(ranking.scores, head.weight * seen[0], rtol=1e-4, atol=1e-6)  # one image a class


def test_weights_that_are_absent_are_refused(tmp_path: Path) -> None:
    net = transformers_folder(tmp_path)
    kept = {k: v.clone() for k, v in net.state_dict().items() if "classifier" not in k}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks weights \(classifier\.bias"):
        load_model(f"transformers:{tmp_path}")


def test_a_saved_defense_finds_its_model_again(tmp_path: Path) -> None:
    model, probe = load_model(f"timm:{TINY}&pretrained=false"), load_data("embedded:probe", n=20)
    ranking = leave_one_out(model, probe, "model.head.flatten", progress=False)
    defense = defend(model, ranking, keep=4, sigma=0)
    defense.save(tmp_path / "defended")
    again = load_defense(tmp_path / "defended")
    with torch.no_grad():
        assert torch.equal(again(probe.images[:4]), defense(probe.images[:4]))


def test_a_model_travels_to_a_process_whose_imports_fail(photos: Tensor) -> None:
    model = load_model(f"timm:{TINY}&pretrained=false")
    with torch.no_grad():
        assert torch.equal(pickle.loads(pickle.dumps(model))(photos), model(photos))


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("timm:resnet81", "timm has no model 'resnet81'. Did you mean resnet18"),
        ("torchvision:resnet81", "torchvision has no classifier 'resnet81'. Did you mean resnet18"),
        ("timm:resnet18", r"not on this disk: `hf download timm/resnet18.*pretrained=false"),
        ("torchvision:resnet18", r"not on this disk. Save https://download.pytorch.org"),
        ("torchvision:resnet18?weights=V9", "has no weights 'V9'; it has IMAGENET1K_V1"),
        ("transformers:no/such", "neither a folder nor in the hub's cache; download it once"),
        ("timm:resnet18?pretrained=false&wings=2", "cannot be built: .*wings"),
        ("embeded", "No model 'embeded'; expected 'embedded'"),
    ],
)
def test_what_is_not_there_is_said_with_what_to_do(
    spec: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr("igdefense.models.adapters.timm.from_hub_cache", lambda *_: None)
    with pytest.raises(ModelError, match=says):
        load_model(spec)


def test_settings_of_checkpoints_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="arch, mean and std are for checkpoint files"):
        load_model(f"timm:{TINY}&pretrained=false", "resnet18")
    with pytest.raises(ModelError, match="'embedded' needs none"):
        load_model("embedded", folder=tmp_path)


def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ModelError, match=r"needs the package timm: pip install 'igdefense\[zoo\]'"):
        load_model("timm:resnet18")


def test_absent_packages_are_stood_in_for_while_another_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "needy"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from gdown_of_tests import download\nfrom autoattack.state import EvaluationState\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(foreign, "SPARE", ("gdown_of_tests", "autoattack"))
    monkeypatch.delitem(sys.modules, "needy", raising=False)
    found = foreign._import_with_stand_ins("needy")
    assert not {"gdown_of_tests", "autoattack", "autoattack.state"} & set(sys.modules)
    with pytest.raises(ModuleNotFoundError, match="No module named 'gdown_of_tests'"):
        found.download("address")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("gdown_of_tests")
