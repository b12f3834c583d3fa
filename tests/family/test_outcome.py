"""Which setting is chosen, and what is said about it."""

import pytest
import torch

from igdefense.errors import SettingError
from igdefense.family.member import Member
from igdefense.family.outcome import Outcome
from igdefense.family.trial import Trial, best_first, rungs
from igdefense.verdicts.difference import difference


def trial(member: Member, kept: int, images: int = 20) -> Trial:
    """The base keeps 10 images; the member the first so many."""
    ours, base = (torch.arange(images) < count for count in (kept, 10))
    return Trial(member, 0.8, difference("IW-WC", ours, base))


def test_rounds_double_up_to_all_images() -> None:
    assert rungs(300, 50) == [50, 100, 200, 300]
    assert rungs(300, None) == [75, 150, 300]
    assert rungs(300, 300) == [300]
    with pytest.raises(SettingError, match="first = 301"):
        rungs(300, 301)


def test_of_equals_the_simpler_is_taken() -> None:
    plain, noisy, quiet = Member(samples=16), Member(), Member(sigma=0)
    static, both = Member(kind="spectral"), Member(ranking="sum")
    order = [
        t.member for t in best_first([trial(m, 12) for m in (plain, both, noisy, quiet, static)])
    ]
    assert order == [static, quiet, noisy, both, plain]
    better = best_first([trial(static, 12), trial(plain, 13), trial(quiet, 11)])
    assert [t.member for t in better] == [plain, static, quiet]


def outcome(kept: int, suite: str = "expert", images: int = 400) -> Outcome:
    """Of the test images the base keeps 200."""
    ours, base = (torch.arange(images) < count for count in (kept, 200))
    stage = {"suite": suite, "budget": {}}
    rounds = [[trial(Member(), 12), trial(Member(keep=4), 14)], [trial(Member(keep=4), 13)]]
    settings = {"validation": {"suite": "expert-quick", "budget": {}}, "test": stage}
    rows = [difference("clean", ours, base), difference("IW-WC, 1 draw", ours, base)]
    return Outcome(rounds, Member(keep=4), rows, settings)


@pytest.mark.parametrize(
    ("kept", "words", "gain"),
    [
        (230, "A gain is shown", True),
        (204, "No gain is shown", False),
        (170, "A loss is shown", False),
    ],
)
def test_the_sentence_follows_the_test_images_alone(kept: int, words: str, gain: bool) -> None:
    found = outcome(kept)
    assert found.sentence.startswith(words)
    assert f"{(kept - 200) / 4:+.1f} points" in found.sentence
    assert "among 2 settings on 20 other images, where it had +15.0 points" in found.sentence
    assert found.to_json()["gain shown"] is gain
    assert found.table().endswith(found.sentence)


def test_small_budgets_are_told() -> None:
    assert "compared under reduced budgets" in outcome(203).sentence
    assert "both may keep too much" in outcome(203, "expert-quick").sentence


def test_the_table_says_who_goes_on_and_who_is_chosen() -> None:
    lines = outcome(203).table().splitlines()
    assert sum(line.endswith("goes on") for line in lines) == 1
    assert sum(line.endswith("chosen") for line in lines) == 1
    (first,) = [line for line in lines if line.endswith("goes on")]
    assert first.startswith("lo-ir, keep 4")
