"""Random numbers depend on what they are for, never on order, batch or process."""

import subprocess
import sys

import pytest
import torch

from igdefense.defenses.noise import Noise
from igdefense.errors import SettingError
from igdefense.randomness import Key, Streams, generator, seed_of

STREAMS = Streams([11, 22, 33, 44])
PINNED = 4687892682875512842


def test_a_seed_is_the_same_in_every_process() -> None:
    code = "from igdefense.randomness import seed_of; print(seed_of(0, 'noise', 3))"
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert int(other) == seed_of(0, "noise", 3) == PINNED


def test_a_seed_fits_a_generator_and_differs_with_every_part_of_its_path() -> None:
    paths: list[tuple[Key, ...]] = [
        (0,),
        (1,),
        ("0",),
        (0, 0),
        (0, "a"),
        (0, "b"),
        ("a", 0),
        ((0, "a"),),
    ]
    seeds = {seed_of(*path) for path in paths}
    assert len(seeds) == len(paths)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_generator_gives_the_same_numbers_for_the_same_path() -> None:
    one, two = (torch.rand(5, generator=generator(1, "x")) for _ in range(2))
    assert torch.equal(one, two)


def test_a_stream_gives_the_same_numbers_however_often_it_is_asked() -> None:
    assert torch.equal(STREAMS.normal((3,)), STREAMS.normal((3,)))
    one, two = (STREAMS.child("start", 1).uniform((3,)) for _ in range(2))
    assert torch.equal(one, two)


def test_children_of_other_names_are_other_streams() -> None:
    names = [("a",), ("b",), ("a", 0), ("a", 1)]
    draws = torch.stack([STREAMS.child(*name).normal((2000,)) for name in names]).flatten(0, 1)
    correlations = torch.corrcoef(draws) - torch.eye(len(draws))
    assert correlations.abs().max() < 0.12  # five standard errors


@pytest.mark.parametrize(
    "index", [torch.tensor([3, 1]), torch.tensor([False, True, False, True])], ids=["at", "mask"]
)
def test_a_subset_is_dealt_what_it_is_dealt_among_the_others(index: torch.Tensor) -> None:
    for part, whole in ((STREAMS[index], STREAMS), (STREAMS[index].child("x"), STREAMS.child("x"))):
        assert torch.equal(part.normal((4,)), whole.normal((4,))[index])
        assert torch.equal(part.uniform((4,)), whole.uniform((4,))[index])


def test_streams_keep_to_their_range_and_spread() -> None:
    numbers = STREAMS.uniform((5000,), -2.0, 3.0)
    assert -2 <= numbers.min() < -1.99
    assert 2.99 < numbers.max() <= 3
    assert STREAMS.normal((5000,), std=0.5).std().item() == pytest.approx(0.5, rel=0.03)


def test_streams_of_a_generator_are_one_for_each_image() -> None:
    streams = Streams.of(generator(0), 3)
    assert streams.seeds == Streams.of(generator(0), 3).seeds
    assert len(set(streams.seeds)) == 3
    assert Streams.of(streams, 3) is streams
    with pytest.raises(ValueError, match="3 random streams for 2 images"):
        Streams.of(streams, 2)


def test_keyed_noise_depends_on_the_key_alone() -> None:
    images = torch.zeros(4, 3, 2, 2)
    together = Noise(0.5, 3, seed=1).around(images, [5, 6, 7, 8]).unflatten(0, (3, 4))
    noise = Noise(0.5, 3, seed=1)
    noise.around(images)  # other draws in between change nothing
    alone = noise.around(images[:1], [7]).unflatten(0, (3, 1))
    assert torch.equal(alone[:, 0], together[:, 2])
    assert len(torch.unique(together.flatten(0, 1).flatten(1), dim=0)) == 12


def test_keyed_noise_of_another_seed_is_other_noise() -> None:
    images = torch.zeros(1, 3, 2, 2)
    one, two = (Noise(0.5, 1, seed=seed).around(images, [0]) for seed in (0, 1))
    assert not torch.equal(one, two)


def test_fresh_noise_differs_between_calls_and_frozen_noise_does_not() -> None:
    images = torch.zeros(2, 3, 2, 2)
    fresh, frozen = Noise(0.5), Noise(0.5, kind="frozen")
    assert not torch.equal(fresh.around(images), fresh.around(images))
    assert torch.equal(frozen.around(images), frozen.around(images))
    assert torch.equal(frozen.around(images)[0], frozen.around(images)[1])


def test_noise_leaves_the_global_generator_alone() -> None:
    before = torch.random.get_rng_state()
    images = torch.zeros(2, 3, 2, 2)
    for keys in (None, [0, 1]):
        Noise(0.5).around(images, keys)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_every_image_needs_a_key() -> None:
    with pytest.raises(SettingError, match="1 keys for 2 images"):
        Noise(0.5).around(torch.zeros(2, 3, 2, 2), [0])
