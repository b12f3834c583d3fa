from math import comb, sqrt

import pytest
import torch

from flips import Flips
from igdefense.models.toys import LinearNet, Noisy
from igdefense.randomness import Streams, seed_of
from igdefense.verdicts.judge import predict, predict_draws, view_of
from igdefense.verdicts.store import image_ids
from igdefense.verdicts.verdict import Verdict
from igdefense.verdicts.worst_case import worst_case

N, K = 1000, 10


def judged(p: float) -> Verdict:
    """N images of class 0 behind a defense that is wrong with probability p."""
    images = torch.rand(N, 1, 1, 1, generator=torch.Generator().manual_seed(0))
    ids = image_ids(images, torch.zeros(N, dtype=torch.long))
    return Verdict.on_all("none", predict_draws(Flips(p), images, ids, 0, K) == 0)


def near(value: float, truth: float, count: int) -> bool:
    return abs(value - truth) < 4 * sqrt(truth * (1 - truth) / count)


@pytest.mark.parametrize("p", [0.05, 0.3, 0.6])
def test_every_accuracy_of_a_defense_that_errs_with_probability_p(p: float) -> None:
    verdict = judged(p)
    most = sum(comb(5, k) * (1 - p) ** k * p ** (5 - k) for k in (3, 4, 5))
    assert verdict.draws.shape == (N, K + 1)
    assert near(verdict.share.value, 1 - p, N)
    assert near(verdict.expected.value, 1 - p, N * K)
    assert near(verdict.majority.value, most, N)
    assert near(verdict.any_of.value, (1 - p) ** K, N)
    assert verdict.expected.std == pytest.approx(sqrt(p * (1 - p) / N), rel=0.8)


def test_fresh_draws_are_apart_from_the_judging_draw_and_from_each_other() -> None:
    draws = judged(0.5).draws.double()
    together = torch.corrcoef(draws.T) - torch.eye(K + 1)
    assert together.abs().max() < 5 / sqrt(N)


def test_the_judging_draw_is_keyed_by_seed_image_and_purpose_alone() -> None:
    net = Noisy(LinearNet(), sigma=0.3)
    net.random = True  # type: ignore[assignment]
    images = torch.rand(13, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    ids = image_ids(images, torch.zeros(13, dtype=torch.long))
    draws = predict_draws(net, images, ids, 5, K)
    keyed = view_of(net, Streams([seed_of(5, name, "judge") for name in ids]))
    assert torch.equal(draws[:, 0], keyed(images).argmax(1))
    third = view_of(net, Streams([seed_of(5, name, "judge", 3) for name in ids]))
    assert torch.equal(draws[:, 3], third(images).argmax(1))
    assert not torch.equal(draws[:, 0], draws[:, 3])


def test_fresh_draws_do_not_depend_on_the_batch() -> None:
    net = Noisy(LinearNet(), sigma=0.3)
    net.random = True  # type: ignore[assignment]
    images = torch.rand(13, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    ids = image_ids(images, torch.zeros(13, dtype=torch.long))
    whole = predict_draws(net, images, ids, 0, K)
    parts = [predict_draws(net, images[i : i + 3], ids[i : i + 3], 0, K) for i in range(0, 13, 3)]
    assert torch.equal(whole, torch.cat(parts))


def test_a_deterministic_defense_has_one_draw_and_one_accuracy() -> None:
    net, images = LinearNet(), torch.rand(9, 3, 8, 8)
    ids = image_ids(images, torch.zeros(9, dtype=torch.long))
    found = predict_draws(net, images, ids, 0, K)
    assert torch.equal(found, predict(net, images, ids, 0).unsqueeze(1))
    verdict = Verdict.on_all("none", found == 0)
    assert verdict.share == verdict.majority == verdict.any_of
    assert (verdict.expected.value, verdict.expected.std) == (verdict.share.value, 0.0)
    assert not worst_case(verdict, [verdict]).random


def bits(*rows: str) -> torch.Tensor:
    return torch.tensor([[mark == "1" for mark in row] for row in rows])


def test_the_judging_draw_is_no_fresh_draw() -> None:
    verdict = Verdict.on_all("none", bits("0111", "1111"))
    assert (verdict.share.value, verdict.expected.value, verdict.any_of.value) == (0.5, 1.0, 1.0)


def test_the_worst_attack_is_chosen_on_half_of_the_draws_and_judged_on_the_other() -> None:
    # the judging draw, two draws that select, two that report; one row an image
    clean = Verdict.on_all("clean", bits("11111", "11111", "11111"))
    one = Verdict.on_all("one", bits("11100", "10011", "01111"))
    two = Verdict.on_all("two", bits("10111", "10110", "11110"))
    worst = worst_case(clean, [one, two])
    # two selects worst for image 0, one for image 1, and neither for image 2, so the first is taken
    assert worst.rates.tolist() == [1.0, 1.0, 1.0]
    assert worst.robust.tolist() == [True, True, False]
    assert worst.every.tolist() == [False, False, False]


def test_of_attacks_that_select_alike_the_one_worse_for_all_images_is_judged() -> None:
    clean = Verdict.on_all("clean", bits("11111", "11111"))
    weak = Verdict.on_all("weak", bits("11111", "11011"))
    strong = Verdict.on_all("strong", bits("11101", "10000"))
    assert worst_case(clean, [weak, strong]).rates.tolist() == [0.5, 0.0]


def test_choosing_among_many_equal_attacks_does_not_bias_the_expected_accuracy() -> None:
    rng = torch.Generator().manual_seed(0)
    attacks = [Verdict.on_all(str(i), torch.rand(N, K + 1, generator=rng) < 0.7) for i in range(20)]
    worst = worst_case(attacks[0], attacks[1:])
    assert near(worst.expected.value, 0.7, N * K // 2)
    assert worst.share.value < 0.02  # while one draw for all attacks knows the future


def test_in_a_cascade_only_the_attacks_an_image_met_are_chosen() -> None:
    clean = Verdict.on_all("clean", bits("11111", "11111", "11111"))
    first = Verdict("first", bits("01101", "11111", "01111"), torch.tensor([True, True, True]))
    second = Verdict("second", bits("00000", "11111", "00000"), torch.tensor([False, True, False]))
    worst = worst_case(clean, [first, second])
    assert worst.rates.tolist() == [0.5, 1.0, 1.0]
    assert worst.every.tolist() == [False, True, False]  # what fell on one draw is broken
