import pytest

from igdefense.verdicts.statistics import Share


def test_the_interval_is_wilsons() -> None:
    z, n, p = 1.959963984540054, 200, 0.4
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    assert Share(80, 200).interval == pytest.approx((middle - half, middle + half))


def test_no_image_right_still_has_an_interval() -> None:
    low, high = Share(0, 50).interval
    assert low == 0
    assert 0.05 < high < 0.1


def test_a_share_prints_in_percent() -> None:
    assert str(Share(1, 4)) == "25.0 [4.6, 69.9]"
