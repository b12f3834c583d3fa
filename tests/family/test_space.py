"""The settings of a search, and the defenses they make."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from igdefense.data.data import Data
from igdefense.defenses.averaged import AveragedDefense
from igdefense.defenses.ig_defense import IGDefense
from igdefense.defenses.layered import LayeredDefense
from igdefense.errors import SettingError
from igdefense.family.member import Member
from igdefense.family.probed import Probed
from igdefense.family.search import slug
from igdefense.family.space import default_space, drawn, members, read_space, varied
from igdefense.models.fingerprint import identity
from igdefense.models.load import load_model
from igdefense.models.penultimate import recommended_layer
from igdefense.rankings.leave_one_out import leave_one_out
from nets import make_net


@pytest.fixture
def probed(data: Data) -> Probed:
    return Probed(make_net("resnet"), data)


def test_a_grid_is_every_combination_and_none_twice() -> None:
    grid = {"kind": ["masked", "spectral"], "keep": [8, "1/2"], "sigma": [0, "4/255"]}
    found = members([grid, {"keep": 8, "sigma": 0}])
    assert len(found) == 2 * 2 + 2  # sigma is nothing to a spectral head
    assert found[0] == Member(keep=8, sigma=0)
    assert Member(kind="spectral", keep=0.5, sigma=0.3) in found


def test_the_command_line_and_the_file_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[[grid]]\nkeep = [8, "1/4"]\nsigma = "4/255"\n')
    (tmp_path / "a.json").write_text('{"grid": [{"keep": [8, 0.25], "sigma": "4/255"}]}')
    wanted = members(varied(["keep=8, 1/4", "sigma=4/255"]))
    assert wanted == [Member(keep=8), Member(keep=0.25)]
    for name in ("a.toml", "a.json"):
        assert members(read_space(tmp_path / name)) == wanted


def test_the_default_space_has_names_and_folders_of_their_own() -> None:
    space = members(default_space(load_model("embedded")))
    assert len(space) == len({m.name for m in space}) == len({slug(m) for m in space}) > 30
    assert {m.kind for m in space} == {
        *("masked", "averaged", "smoothing", "class-masks", "spectral"),
    }
    assert all(Member.of(m.to_json()) == m for m in space)
    some = drawn(space, 5, seed=0)
    assert some == drawn(space, 5, seed=0) != drawn(space, 5, seed=1)
    assert drawn(space, 100, seed=0) == space


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        ("keep", "expected NAME=VALUE"),
        ("kept=3", "no setting 'kept'"),
        ("kind=mask", "no kind 'mask'"),
        ("ranking=best", "no ranking 'best'"),
        ("keep=0", "keep = 0"),
        ("keep=1.5", "keep = 1.5"),
        ("sigma=high", "not a number"),
        ("samples=1/2", "not a whole number"),
    ],
)
def test_settings_that_do_not_exist_are_refused(pair: str, sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        members(varied([pair]))


def test_a_file_without_grids_is_refused(tmp_path: Path) -> None:
    for name, text in (("a.toml", "keep = 3"), ("b.toml", "keep ="), ("c.json", "[]")):
        (tmp_path / name).write_text(text)
        with pytest.raises(SettingError, match=name):
            read_space(tmp_path / name)


def test_members_make_the_defenses_they_name(probed: Probed, data: Data, images: Tensor) -> None:
    net, keys = probed.model, list(range(9))
    ranking = leave_one_out(net, data, "layer4")
    plain = IGDefense(net, ranking, 4, sigma=0.1, samples=2, seed=3)
    settings: dict[str, Any] = {"layer": "layer4", "sigma": 0.1, "samples": 2}
    for keep in (4, 0.25):  # of 16 neurons
        assert identity(Member(keep=keep, **settings).build(probed, 3)) == identity(plain)
    averaged = Member(kind="averaged", keep=4, **settings).build(probed, 3)
    assert identity(averaged) == identity(AveragedDefense(net, ranking, **plain.settings))
    both = Member(layer="layer3+layer4", keep=0.5, sigma=0).build(probed)
    assert isinstance(both, LayeredDefense)
    assert both.keeps == (4, 8)
    none = Member(kind="smoothing", sigma=0).build(probed)
    assert_close(none(images), net(images))
    for kind in ("class-masks", "spectral"):
        whole = Member(kind=kind, layer="layer4", keep=16).build(probed)
        assert_close(whole(images), net(images))
        assert not torch.allclose(Member(kind=kind, keep=2).build(probed)(images), net(images))
    assert plain(images, keys).shape == (9, 3)


def test_rankings_are_made_once_and_kept(
    probed: Probed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = probed.ranking("lo-ir", "layer4")
    assert probed.ranking("lo-ir", "layer4") is made
    probed.keep_in(tmp_path)
    probed.ranking("lo-ir-absolute", "layer4")
    monkeypatch.setattr("igdefense.family.probed.leave_one_out", None)
    again = Probed(probed.model, probed.data, folder=tmp_path)
    assert again.ranking("lo-ir", "layer4").fingerprint == made.fingerprint
    assert again.ranking("lo-ir-absolute", "layer4").fingerprint != made.fingerprint
    assert "cannot be made" in str(again.other("cd-ir", "layer4"))  # images of 8 x 8, three names


def test_the_layer_of_an_unknown_net_is_found(cnn: nn.Module, data: Data) -> None:
    defense = Member().build(Probed(cnn, data))
    assert isinstance(defense, IGDefense)
    assert defense.ranking.layer == recommended_layer(cnn, data.images[:2])


def test_a_net_without_a_layer_to_mask_needs_one_to_be_named(data: Data) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Softmax(dim=1)).eval()
    with pytest.raises(SettingError, match="--vary layer=NAME"):
        Probed(net, data).layer()
