"""Overlap and correlation of rankings with known answers."""

from pathlib import Path

import pytest
import torch
from scipy.stats import spearmanr
from torch.testing import assert_close

import igdefense as igd
from borders import edges
from igdefense.errors import OutputError, RankingError, SettingError
from igdefense.rankings.compare import Comparison, compare
from igdefense.rankings.ranking import Ranking
from igdefense.report.pictures import comparison_picture

HAND = Ranking("layer", torch.tensor([[4.0, 3, 2, 1], [1, 2, 3, 4]]), {"method": "hand"})
OTHER = Ranking("layer", torch.tensor([[4.0, 1, 3, 2], [1, 2, 3, 4]]))


def drawn(classes: int, neurons: int, seed: int) -> Ranking:
    return igd.shuffled(Ranking("layer", torch.zeros(classes, neurons)), seed)


def test_overlap_is_the_share_of_the_top_k_in_common() -> None:
    result = compare({"a": HAND, "b": OTHER}, ks=[1, 2, 3, 4])
    assert result.overlap[0, 1, :, 0].tolist() == pytest.approx([1, 1 / 2, 2 / 3, 1])
    assert result.overlap[0, 1, :, 1].tolist() == [1, 1, 1, 1]
    assert result.chance == [1 / 4, 2 / 4, 3 / 4, 1]


def test_a_ranking_agrees_with_itself_and_not_with_its_inverse() -> None:
    ranking = drawn(3, 20, seed=0)
    result = compare({"it": ranking, "inverse": igd.inverted(ranking)}, ks=[1, 5, 10])
    assert (result.overlap[0, 0] == 1).all()
    assert (result.overlap[0, 1] == 0).all()
    assert_close(result.correlation[0], torch.tensor([[1.0] * 3, [-1.0] * 3]).double())


def test_correlation_equals_scipy_s_with_and_without_ties() -> None:
    one, two = drawn(4, 30, seed=1), drawn(4, 30, seed=2)
    tied = Ranking("layer", (one.scores * 5).round())
    result = compare({"one": one, "two": two, "tied": tied})
    for a, b, first, second in [(0, 1, one, two), (0, 2, one, tied), (1, 2, two, tied)]:
        expected = [spearmanr(x, y)[0] for x, y in zip(first.scores, second.scores, strict=True)]
        assert result.correlation[a, b].tolist() == pytest.approx(expected)


def test_random_rankings_overlap_by_chance() -> None:
    result = compare({"one": drawn(300, 50, 1), "two": drawn(300, 50, 2)}, ks=[5, 10, 25])
    assert_close(result.overlap[0, 1].mean(1).tolist(), result.chance, rtol=0, atol=0.03)
    assert abs(float(result.correlation[0, 1].mean())) < 0.03


def test_equal_scores_have_no_correlation_to_tell(tmp_path: Path) -> None:
    result = compare({"flat": Ranking("layer", torch.zeros(2, 4)), "hand": HAND})
    assert result.correlation[0, 1].isnan().all()
    assert result.table().splitlines()[2].endswith("  -")
    result.save(tmp_path / "c.json")
    assert Comparison.load(tmp_path / "c.json").correlation[0, 1].isnan().all()


def test_a_saved_comparison_comes_back_whole(tmp_path: Path) -> None:
    result = compare({"hand": HAND, "other": OTHER}, class_names=["cat", "dog"])
    result.save(tmp_path / "c.json")
    again = Comparison.load(tmp_path / "c.json")
    assert again.table() == result.table()
    assert_close(again.overlap, result.overlap)
    (tmp_path / "c.json").write_text("{}")
    with pytest.raises(OutputError, match="not a saved comparison"):
        Comparison.load(tmp_path / "c.json")


def test_the_table_shows_means_chance_and_each_class() -> None:
    lines = compare({"a": HAND, "b": OTHER}, ks=[2], class_names=["cat", "dog"]).table()
    rows = [line.split() for line in lines.splitlines()]
    assert ["a", "/", "b", "0.750", "0.700"] in rows  # cat: 1/2 and 0.4; dog: 1 and 1
    assert ["chance", "(k", "/", "neurons)", "0.500", "0.000"] in rows
    assert ["cat", "0.500", "0.400"] in rows
    assert ["dog", "1.000", "1.000"] in rows


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (Ranking("last", torch.zeros(2, 4)), r"b ranks last \(2 classes x 4 neurons\) but a ranks"),
        (Ranking("layer", torch.zeros(2, 5)), r"b ranks layer \(2 classes x 5 neurons\)"),
        (Ranking("layer", torch.zeros(3, 4)), r"b ranks layer \(3 classes x 4 neurons\)"),
    ],
)
def test_rankings_of_different_layers_are_refused(other: Ranking, says: str) -> None:
    with pytest.raises(RankingError, match=says):
        compare({"a": HAND, "b": other})


def test_a_bad_setting_is_refused() -> None:
    with pytest.raises(SettingError, match="at least two rankings, got 1"):
        compare({"a": HAND})
    with pytest.raises(SettingError, match="k = 5 is outside 1 to 4"):
        compare({"a": HAND, "b": OTHER}, ks=[2, 5])
    with pytest.raises(SettingError, match="1 class names for 2 classes"):
        compare({"a": HAND, "b": OTHER}, class_names=["cat"])


@pytest.mark.parametrize("classes", [2, 100])
@pytest.mark.parametrize("name", ["a", "a ranking with quite a long name, " * 5])
def test_nothing_in_the_picture_touches_its_edge(classes: int, name: str) -> None:
    one, two = drawn(classes, 40, 1), drawn(classes, 40, 2)
    names = [f"{name}{i}" for i in range(classes)]
    picture = comparison_picture(compare({name: one, "b": two}, class_names=names))
    assert edges(picture.tobytes(), picture.size) == {255}
