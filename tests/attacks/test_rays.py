from collections import Counter

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from igdefense.attacks import Direct, Keyed, Linf, RayS
from igdefense.errors import SettingError
from igdefense.models.toys import LinearNet, Noisy
from igdefense.randomness import Streams, generator

TWO = LinearNet(classes=2)
BATCHES = -1  # what `Counting` counts besides images


class Counting:
    """Counts the queries of each image, and the batches they come in."""

    samples = 1

    def __init__(self, positions: Tensor, asked: Counter[int]) -> None:
        self.positions, self.asked = positions, asked

    def __call__(self, x: Tensor) -> Tensor:
        self.asked.update([*self.positions.tolist(), BATCHES])
        return TWO(x)

    def __getitem__(self, index: Tensor) -> "Counting":
        return Counting(self.positions[index], self.asked)


@pytest.fixture
def images() -> Tensor:
    """Pixels that stay away from 0 and 1."""
    return torch.rand(6, 3, 8, 8, generator=generator("images")) / 2 + 0.25


@pytest.fixture
def rng() -> Streams:
    return Streams(range(100, 106))


@pytest.fixture
def labels(images: Tensor) -> Tensor:
    return TWO(images).argmax(1)


def test_the_distance_found_is_the_margin() -> None:
    images = torch.rand(50, 3, 8, 8, generator=generator("far")) / 2 + 0.25
    labels = TWO(images).argmax(1)
    far = TWO.linf_radius(images, labels) > 0.01
    images, labels = images[far], labels[far]
    _, distance, _ = RayS(threat=Linf(0.1), queries=1500).search(Direct(TWO), images, labels)
    exact = TWO.linf_radius(images, labels)
    assert (distance > exact - 1e-6).all()
    assert_close(distance, exact, atol=0, rtol=0.03)


@pytest.mark.parametrize("votes", [1, 3])
def test_every_query_is_counted_and_the_budget_holds(
    votes: int, images: Tensor, labels: Tensor
) -> None:
    asked: Counter[int] = Counter()
    attack = RayS(threat=Linf(0.01), queries=200, votes=votes)
    _, _, spent = attack.search(Counting(torch.arange(6), asked), images, labels)
    assert [asked[i] for i in range(6)] == spent.tolist()
    assert ((spent >= 200) & (spent < 200 + 20 * votes)).all()


@pytest.mark.parametrize("votes", [1, 3])
def test_all_images_ask_in_one_batch_until_the_last_has_spent_its_queries(
    votes: int, images: Tensor, labels: Tensor
) -> None:
    asked: Counter[int] = Counter()
    view = Counting(torch.arange(6), asked)
    attack = RayS(threat=Linf(0.01), queries=200, votes=votes)
    _, _, spent = attack.search(view, images, labels)
    assert len(set(spent.tolist())) > 1
    assert asked[BATCHES] == spent.max()


def test_an_image_takes_the_same_way_with_others_and_alone(images: Tensor, labels: Tensor) -> None:
    attack = RayS(threat=Linf(0.01), queries=200)
    together = attack.search(Direct(TWO), images, labels)
    for i in range(6):
        alone = attack.search(Direct(TWO), images[i : i + 1], labels[i : i + 1])
        for one, all_ in zip(alone, together, strict=True):
            assert torch.equal(one[0], all_[i])


def test_more_queries_never_find_a_longer_way(images: Tensor, labels: Tensor) -> None:
    few, many = (
        RayS(threat=Linf(0.01), queries=n).search(Direct(TWO), images, labels)[1] for n in (60, 600)
    )
    assert (many <= few).all()
    assert (many < few).any()


def test_stopping_at_eps_spares_queries_and_keeps_the_verdict(
    images: Tensor, labels: Tensor
) -> None:
    threat = Linf(float(TWO.linf_radius(images, labels).median() * 1.2))
    to_the_end, early = (
        RayS(threat=threat, queries=800, stop_at_eps=stop).search(Direct(TWO), images, labels)
        for stop in (False, True)
    )
    broken = to_the_end[1] <= threat.eps
    assert 0 < broken.sum() < 6
    assert torch.equal(early[1] <= threat.eps, broken)
    assert (early[2][broken] < to_the_end[2][broken]).all()
    assert torch.equal(early[2][~broken], to_the_end[2][~broken])


def test_points_beyond_the_budget_come_back_clean(
    images: Tensor, labels: Tensor, rng: Streams
) -> None:
    x = RayS(threat=Linf(1e-4), queries=100)(TWO, images, labels, rng=rng)
    assert torch.equal(x, images)


def test_votes_see_through_noise() -> None:
    images = torch.rand(16, 3, 8, 8, generator=generator("noise")) / 2 + 0.25
    labels = TWO(images).argmax(1)
    defense, rng = Noisy(TWO, 0.02), Streams(range(16))

    def success(votes: int) -> float:
        attack = RayS(threat=Linf(0.03), queries=150 * votes, votes=votes)
        x = attack(Keyed(defense, rng), images, labels, rng=rng)
        fresh = Keyed(defense, rng.child("fresh"))
        return sum(float((fresh(x).argmax(1) != labels).float().mean()) for _ in range(50)) / 50

    assert success(11) > success(1) + 0.1


@pytest.mark.parametrize("votes", [0, 2, -1])
def test_votes_are_odd(votes: int) -> None:
    with pytest.raises(SettingError, match="votes"):
        RayS(threat=Linf(0.1), votes=votes)
