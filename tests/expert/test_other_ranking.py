"""A12 with another ranking of the same neurons."""

import pickle
from pathlib import Path

import torch

from hard_defense import CLASSES, hard_defense, some_images
from igdefense.attacks import Linf
from igdefense.data.data import Data
from igdefense.defenses.layered import LayeredDefense
from igdefense.defenses.static_head import class_masked
from igdefense.expert.relaxed import RelaxedDefense
from igdefense.expert.self_transfer import GivenRanking
from igdefense.expert.suite import columns_of
from igdefense.rankings.controls import inverted, random_for
from igdefense.verdicts.evaluate import evaluate
from igdefense.verdicts.verify import verify

BUDGET = {"steps": 2, "targets": 1, "fab_steps": 1, "square_queries": 2, "rays_queries": 4}
BUDGET |= {"square_expert_queries": 2, "rays_expert_queries": 9, "transfer_targets": 1}


def test_the_surrogate_keeps_the_neurons_of_the_other_ranking() -> None:
    defense = hard_defense(sigma=0.02)
    other = inverted(defense.ranking)
    surrogate = GivenRanking(other)(defense, defense.model)
    assert isinstance(surrogate, RelaxedDefense)
    assert torch.equal(surrogate.defense.masks, other.masks(defense.keep))
    assert surrogate.defense.settings == defense.settings


def test_its_repr_names_the_scores() -> None:
    defense = hard_defense()
    one, other = GivenRanking(defense.ranking), GivenRanking(inverted(defense.ranking))
    assert one == pickle.loads(pickle.dumps(one))
    assert len({one, other, GivenRanking()}) == 3
    assert other.ranking.fingerprint in repr(other)  # type: ignore[union-attr]


def test_where_there_is_no_other_ranking_the_reason_is_told() -> None:
    defense, images = hard_defense(), some_images(2)
    elsewhere = random_for(defense.model, images, "0")
    assert GivenRanking().why_not(defense) == "no other ranking was given"
    assert GivenRanking("it takes long").why_not(defense) == "it takes long"
    assert "keeps the same" in str(GivenRanking(defense.ranking).why_not(defense))
    assert "not of the same neurons" in str(GivenRanking(elsewhere).why_not(defense))
    assert GivenRanking(inverted(defense.ranking)).why_not(defense) is None
    static = class_masked(defense.model, defense.ranking, 2, images)
    assert GivenRanking(inverted(defense.ranking)).why_not(static) == "the defense has no mask"
    (column,) = [c for c in columns_of("expert", Linf(0.1)) if c.name == "self-other"]
    assert column.why_not(defense) == "no other ranking was given"


def test_a_defense_of_several_layers_goes_through_the_suite(tmp_path: Path) -> None:
    plain, images = hard_defense(), some_images(3)
    early = random_for(plain.model, images, "0")
    defense = LayeredDefense(plain.model, [early, plain.ranking], [4, 3], sigma=0.02)
    data = Data(images, plain.model(images).argmax(1), CLASSES)
    result = evaluate(
        defense,
        data,
        base=plain.model,
        suite="expert-quick",
        eps=0.001,
        mode="cascade",
        budget=BUDGET,
        other_ranking=inverted(plain.ranking),
        draws=2,
        out=tmp_path / "run",
        progress=False,
    )
    assert set(result.settings["left out"]) == {"self-easier"}
    assert result.verdicts["self-other"].tested.any()
    assert verify(tmp_path / "run", defense, data) == []
