from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch.testing import assert_close

from igdefense.data.data import Data
from igdefense.errors import RankingError, SettingError
from igdefense.rankings.controls import inverted, shuffled
from igdefense.rankings.leave_one_out import leave_one_out
from igdefense.rankings.ranking import Ranking
from nets import make_net

SCORES = torch.tensor([[0.1, 0.9, 0.5], [3.0, 1.0, 2.0]])


def test_masks_keep_the_highest_scores_of_each_class() -> None:
    masks = Ranking("layer", SCORES).masks(2)
    assert masks.tolist() == [[0, 1, 1], [1, 0, 1]]


def test_keeping_all_masks_nothing() -> None:
    assert Ranking("layer", SCORES).masks(3).min() == 1


@pytest.mark.parametrize("keep", [0, -1, 4])
def test_keep_outside_the_layer_is_refused(keep: int) -> None:
    with pytest.raises(SettingError, match=f"keep = {keep} is outside 1 to 3"):
        Ranking("layer", SCORES).masks(keep)


def test_a_saved_ranking_comes_back_whole(tmp_path: Path) -> None:
    ranking = Ranking("a.b", SCORES, {"method": "LO-IR", "model": "abc"})
    ranking.save(tmp_path / "r.safetensors")
    again = Ranking.load(tmp_path / "r.safetensors")
    assert_close(again.scores, SCORES, rtol=0, atol=0)
    assert (again.layer, again.provenance) == ("a.b", ranking.provenance)
    assert [path.name for path in tmp_path.iterdir()] == ["r.safetensors"]


def test_provenance_names_method_layer_weights_and_data(data: Data) -> None:
    net = make_net("cnn")
    provenance = leave_one_out(net, data, "last", change="absolute").provenance
    assert provenance["method"] == "LO-IR"
    assert provenance["settings"] == "change=absolute"
    assert provenance["data"] == data.fingerprint
    assert provenance["images"] == "9"


def test_another_model_is_refused_with_both_fingerprints(data: Data, tmp_path: Path) -> None:
    net, other = make_net("cnn"), make_net("cnn")
    ranking = leave_one_out(net, data, "last")
    ranking.save(tmp_path / "r.safetensors")
    with torch.no_grad():
        other.get_parameter("fc.bias").add_(1)
    Ranking.load(tmp_path / "r.safetensors", net)
    with pytest.raises(RankingError, match=rf"{ranking.provenance['model']}.*has [0-9a-f]{{16}}"):
        Ranking.load(tmp_path / "r.safetensors", other)
    Ranking.load(tmp_path / "r.safetensors", other, force=True)


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.safetensors"
    Ranking("layer", SCORES).save(path)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(RankingError, match="not a whole ranking file"):
        Ranking.load(path)


def test_a_foreign_safetensors_file_is_refused(tmp_path: Path) -> None:
    save_file({"scores": SCORES}, tmp_path / "r.safetensors")
    with pytest.raises(RankingError, match="not a ranking of this project"):
        Ranking.load(tmp_path / "r.safetensors")


def test_a_file_without_its_provenance_is_refused(tmp_path: Path) -> None:
    save_file({"scores": SCORES}, tmp_path / "r.safetensors", {"format": "igdefense-ranking-1"})
    with pytest.raises(RankingError, match="not a whole ranking file"):
        Ranking.load(tmp_path / "r.safetensors")


def test_scores_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(RankingError, match="not finite"):
        Ranking("layer", torch.full((2, 2), float("nan")))


def test_a_random_ranking_is_the_same_for_the_same_seed_only() -> None:
    ranking = Ranking("layer", SCORES)
    assert_close(shuffled(ranking, 1).scores, shuffled(ranking, 1).scores, rtol=0, atol=0)
    assert not torch.equal(shuffled(ranking, 1).scores, shuffled(ranking, 2).scores)


def test_inverting_keeps_the_neurons_that_matter_least() -> None:
    assert inverted(Ranking("layer", SCORES)).masks(1).tolist() == [[1, 0, 0], [0, 1, 0]]
