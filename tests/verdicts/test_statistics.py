from math import comb, sqrt

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from torch import Tensor

from igdefense.verdicts.statistics import (
    Mean,
    Share,
    detectable,
    mcnemar_exact,
    paired_bootstrap,
    wilson,
)

Z = 1.959963984540054


def test_the_interval_is_wilsons() -> None:
    n, p = 200, 0.4
    middle = (p + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * (p * (1 - p) / n + Z * Z / (4 * n * n)) ** 0.5
    assert Share(80, 200).interval == pytest.approx((middle - half, middle + half))


def test_no_image_right_still_has_an_interval() -> None:
    low, high = Share(0, 50).interval
    assert low == 0
    assert 0.05 < high < 0.1


def test_a_share_prints_in_percent() -> None:
    assert str(Share(1, 4)) == "25.0 [4.6, 69.9]"


@pytest.mark.parametrize("count", [0, 1, 17, 50])
def test_a_mean_of_equal_draws_has_the_interval_of_a_share(count: int) -> None:
    assert Mean(count / 50, 0.0, 50).interval == pytest.approx(Share(count, 50).interval)
    assert wilson(0.0, 50)[0] == 0.0
    assert wilson(1.0, 50)[1] == 1.0


def test_a_mean_prints_its_spread_over_draws() -> None:
    assert str(Mean(0.25, 0.0125, 4)) == "25.0 ± 1.2 [4.6, 69.9]"


def test_wilsons_interval_covers_the_truth_19_times_in_20() -> None:
    shares = np.random.default_rng(0).binomial(60, 0.3, size=4000)
    covered = [wilson(k / 60, 60)[0] <= 0.3 <= wilson(k / 60, 60)[1] for k in shares]
    assert 0.93 < np.mean(covered) < 0.97


def pair(only_a: int, only_b: int, both: int = 0) -> tuple[Tensor, Tensor]:
    a = torch.tensor([True] * only_a + [False] * only_b + [True] * both)
    b = torch.tensor([False] * only_a + [True] * only_b + [True] * both)
    return a, b


@pytest.mark.parametrize(
    ("only_a", "only_b", "p"),
    [
        (0, 0, 1.0),
        (5, 5, 1.0),
        (0, 5, 2 / 2**5),
        (8, 1, 2 * (1 + 9) / 2**9),
        (121, 59, 2 * sum(comb(180, k) for k in range(60)) / 2**180),
    ],
)
def test_mcnemars_p_is_a_tail_of_fair_coins(only_a: int, only_b: int, p: float) -> None:
    assert mcnemar_exact(*pair(only_a, only_b, both=30)) == pytest.approx(p)


def test_identical_outcomes_have_a_difference_of_exactly_zero() -> None:
    a = torch.tensor([1.0, 0.0, 0.3, 1.0])
    assert paired_bootstrap(a, a, np.random.default_rng(0)) == (0.0, 0.0)


def test_the_bootstrap_interval_has_the_width_of_the_normal_one() -> None:
    a, b = pair(only_a=300, only_b=200, both=1500)
    low, high = paired_bootstrap(a.double(), b.double(), np.random.default_rng(0))
    half = Z * sqrt((0.25 - 0.05**2) / 2000)
    assert (low, high) == pytest.approx((0.05 - half, 0.05 + half), abs=0.0015)


def test_the_paired_bootstrap_covers_the_truth_19_times_in_20() -> None:
    rng, covered = np.random.default_rng(0), []
    for _ in range(500):
        gains = rng.choice([1.0, 0.0, -1.0], p=[0.25, 0.6, 0.15], size=200)
        a = torch.from_numpy(gains)
        low, high = paired_bootstrap(a, torch.zeros_like(a), rng, resamples=1000)
        covered.append(low <= 0.1 <= high)
    assert 0.92 < np.mean(covered) < 0.98


@pytest.mark.parametrize(("n", "discordant"), [(500, 0.1), (1000, 0.05), (10_000, 0.3)])
def test_the_smallest_difference_is_the_one_that_n_images_are_needed_for(
    n: int, discordant: float
) -> None:
    power, d = 0.8416212335729143, detectable(n, discordant)
    needed = (Z * sqrt(discordant) + power * sqrt(discordant - d * d)) ** 2 / d**2
    assert needed == pytest.approx(n)


def test_more_images_show_smaller_differences() -> None:
    shown = [detectable(n, 0.1) for n in (1, 2, 4, 10, 100, 1000, 10_000)]
    assert shown == sorted(shown, reverse=True)
    assert shown[0] == 1.0
    assert detectable(100, 0.0) > 0  # not even no disagreement shows that there is none


def test_a_difference_of_that_size_is_found_four_times_in_five() -> None:
    n, discordant, rng, found = 1000, 0.2, np.random.default_rng(0), []
    d = detectable(n, discordant)
    for _ in range(400):
        kinds = rng.multinomial(n, [(discordant + d) / 2, (discordant - d) / 2, 1 - discordant])
        found.append(mcnemar_exact(*pair(*kinds[:2])) < 0.05)
    assert 0.73 < np.mean(found) < 0.85


@pytest.mark.parametrize(("count", "total"), [(0, 7), (3, 10), (74, 200), (500, 500)])
def test_the_interval_of_a_share_is_the_one_scipy_gives(count: int, total: int) -> None:
    theirs = binomtest(count, total).proportion_ci(method="wilson")
    assert Share(count, total).interval == pytest.approx((theirs.low, theirs.high), abs=1e-12)
