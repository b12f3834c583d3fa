from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from igdefense.errors import RankingError, SettingError
from igdefense.randomness import generator
from igdefense.rankings.combined import WAYS, absolute, combined
from igdefense.rankings.controls import random_ranking
from igdefense.rankings.ranking import Ranking

ONE, OTHER = (random_ranking("layer", 4, 30, seed, {"method": f"m{seed}"}) for seed in (0, 1))


def test_the_kept_neurons_are_the_intersection_and_the_union_of_both_tops() -> None:
    both, either = combined(ONE, OTHER, "intersection"), combined(ONE, OTHER, "union")
    sizes = set()
    for k in range(1, 31):
        a, b = ONE.masks(k), OTHER.masks(k)
        for label in range(4):
            for ranking, mask in ((both, a * b), (either, a.maximum(b))):
                size = int(mask[label].sum())
                if size:
                    assert torch.equal(ranking.masks(size)[label], mask[label])
                    sizes.add(size)
    assert len(sizes) > 20


def test_a_ranking_with_itself_is_itself() -> None:
    for way in WAYS:
        assert torch.equal(combined(ONE, ONE, way).order, ONE.order)


def test_a_sum_does_not_care_about_units() -> None:
    scaled = Ranking("layer", OTHER.scores * 50 + 3)
    assert_close(combined(ONE, scaled, "sum").scores, combined(ONE, OTHER, "sum").scores)


@pytest.mark.parametrize("way", WAYS)
def test_rankings_that_were_saved_and_loaded_are_combined_to_the_same_bits(
    way: str, tmp_path: Path
) -> None:
    scores = torch.randn(300, 10, generator=generator("scores")).T  # not in the order of its rows
    ranking = Ranking("layer", scores, {"method": "cd-ir"})
    ranking.save(tmp_path / "ranking.safetensors")
    other = random_ranking("layer", 10, 300, 0, {})
    loaded = Ranking.load(tmp_path / "ranking.safetensors")
    assert combined(other, loaded, way).fingerprint == combined(other, ranking, way).fingerprint


def test_an_absolute_ranking_forgets_the_sign() -> None:
    ranking = Ranking("layer", torch.tensor([[1.0, -3.0, 2.0]]), {"method": "lo-ir"})
    assert absolute(ranking).order.tolist() == [[1, 2, 0]]
    assert repr(absolute(ranking)).startswith("absolute lo-ir of layer")


def test_rankings_of_other_neurons_are_refused() -> None:
    with pytest.raises(RankingError, match="do not rank the same neurons"):
        combined(ONE, random_ranking("layer", 4, 31, 0, {}), "sum")
    with pytest.raises(SettingError, match="no 'product' of rankings"):
        combined(ONE, OTHER, "product")
