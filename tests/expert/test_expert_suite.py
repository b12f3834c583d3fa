import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from hard_defense import CLASSES, confident_net, hard_defense, some_images
from igdefense.attacks import APGD, Linf
from igdefense.attacks.suites import Column, cheapest_first, suite
from igdefense.data.data import Data
from igdefense.defenses.ig_defense import IGDefense
from igdefense.defenses.smoothing import Smoothed
from igdefense.errors import SettingError
from igdefense.expert.noisy_base import NoisyBase
from igdefense.expert.suite import columns_of
from igdefense.models.fingerprint import identity
from igdefense.models.toys import Noisy
from igdefense.rankings.controls import shuffled
from igdefense.verdicts.evaluate import evaluate
from igdefense.verdicts.run import Run
from igdefense.verdicts.store import Store, image_ids
from igdefense.verdicts.units import Setting, attacked
from igdefense.verdicts.verify import verify

THREAT = Linf(8 / 255)
BUDGET = {"steps": 3, "targets": 2, "fab_steps": 2, "square_queries": 6, "rays_queries": 12}
BUDGET |= {"square_expert_queries": 5, "rays_expert_queries": 15}
MASKS_ONLY = {
    *("relaxed-0.1", "relaxed-1", "joint-mask", "correct-mask", "features", "self-half"),
    *("self-double", "self-absolute", "self-shuffled", "warm-relaxed", "warm-joint"),
    "self-other",
}
NOISE_ONLY = {"frozen", "frozen-many", "rays-majority", "self-many"}


@pytest.fixture(scope="module")
def data() -> Data:
    images, net = some_images(6), confident_net()
    return Data(images, net(images).argmax(1), CLASSES)


def run(defense: nn.Module, data: Data, out: Path, **options: Any) -> Run:
    base = defense.model if isinstance(defense, IGDefense | Smoothed | Rival) else defense
    given: dict[str, Any] = {"suite": "expert-quick", "eps": 0.01, "budget": BUDGET, "draws": 4}
    return evaluate(defense, data, base=base, out=out, **(given | {"progress": False} | options))


def test_the_expert_suite_is_the_papers_nine_and_more() -> None:
    columns = columns_of("expert", THREAT)
    assert columns[:9] == suite("paper", THREAT)
    assert [c.group for c in columns] == ["paper"] * 9 + ["expert"] * (len(columns) - 9)
    assert len({c.name for c in columns}) == len(columns)
    assert {c.name for c in columns} > MASKS_ONLY | NOISE_ONLY


def test_a_cascade_has_the_new_transfers_right_after_the_plain_ones() -> None:
    names = [column.name for column in cheapest_first(columns_of("expert", THREAT))]
    assert names[:3] == ["transfer-apgd-ce", "transfer-apgd-cw", "transfer-apgd-t-dlr"]
    assert names[3:7] == ["noisy-ce", "noisy-cw", "noisy-t-cw", "high-margin"]
    assert names[-1] == "rays-majority"


def test_a_warm_column_starts_from_one_of_the_suites_own() -> None:
    columns = columns_of("expert", THREAT)
    warm = [column for column in columns if column.start is not None]
    assert len(warm) == 3
    assert all(column.start in columns for column in warm)


def test_columns_travel_to_other_processes() -> None:
    columns = columns_of("expert", THREAT)
    assert pickle.loads(pickle.dumps(columns)) == columns


def test_budgets_reach_the_expert_attacks() -> None:
    columns = {c.name: c for c in columns_of("expert", THREAT, {"noisy_samples": 5, "eot": 7})}
    assert columns["noisy-cw"].surrogate == NoisyBase(sigma=4 / 255, samples=5)
    assert columns["averaged-eot"].samples == 7
    with pytest.raises(SettingError, match="no budget 'noisy'"):
        columns_of("expert", THREAT, {"noisy": 5})
    with pytest.raises(SettingError, match=r"no suite 'experts'; .*paper, expert, expert-quick"):
        columns_of("experts", THREAT)


def test_a_column_says_which_target_its_surrogate_is_for() -> None:
    with pytest.raises(SettingError, match="surrogate"):
        Column(name="a", attack=APGD(threat=THREAT), surrogate=NoisyBase(sigma=0.1))


class Rival(Noisy):
    """A random defense that this package knows nothing of but its noise and its easier relative."""

    random = True

    def easier(self) -> nn.Module:
        return Rival(self.model, self.sigma / 2)

    def identity(self) -> str:
        return f"rival {self.sigma} {identity(self.model)}"


def kinds() -> dict[str, tuple[nn.Module, set[str]]]:
    masked = hard_defense(sigma=0.02)
    random = IGDefense(masked.model, shuffled(masked.ranking), 2, sigma=0.02)
    quiet, smooth = hard_defense(keep=4), Smoothed(masked.model, sigma=0.02)
    return {
        "lo-ir": (masked, {"self-easier", "self-other"}),
        "random": (random, {"self-easier", "self-other", "self-absolute"}),  # positive scores
        "without noise": (quiet, {"self-easier", "self-other"} | NOISE_ONLY),
        "smoothing": (smooth, {"self-easier"} | MASKS_ONLY),
        "rival": (Rival(masked.model, 0.02).eval(), MASKS_ONLY),
        "plain": (masked.model, {"self-easier"} | MASKS_ONLY | NOISE_ONLY),
    }


@pytest.mark.parametrize("kind", kinds())
def test_every_defense_goes_through_the_suite_and_is_told_what_does_not_apply(
    kind: str, data: Data, tmp_path: Path
) -> None:
    defense, without = kinds()[kind]
    result = run(defense, data, tmp_path / "run", mode="cascade")
    left_out = result.settings["left out"]
    assert set(left_out) == without
    assert all(left_out.values())
    everything = {c.name for c in columns_of("expert-quick", THREAT)}
    assert set(result.verdicts) == everything - set(left_out)
    assert verify(tmp_path / "run", defense, data) == []
    assert "small budgets" in result.table()
    assert result.settings["columns"]["noisy-ce"]["group"] == "expert"


@pytest.mark.parametrize("smooth", [False, True])
def test_a_cascade_has_the_verdicts_of_the_full_table_and_a_second_run_costs_nothing(
    smooth: bool, data: Data, tmp_path: Path
) -> None:
    masked = hard_defense(sigma=0.02)
    defense = Smoothed(masked.model, sigma=0.02) if smooth else masked
    full = run(defense, data, tmp_path / "full", batch_size=5)
    cascade = run(defense, data, tmp_path / "other" / "cascade", mode="cascade")
    assert torch.equal(full.worst_case.robust, cascade.worst_case.robust)
    for name, verdict in cascade.verdicts.items():
        tested = verdict.tested
        assert torch.equal(verdict.robust[tested], full.verdicts[name].robust[tested])
    again = run(defense, data, tmp_path / "again")
    assert set(again.seconds.values()) == {0.0}
    assert torch.equal(again.worst_case.robust, full.worst_case.robust)


def test_units_are_shared_with_the_other_suites(data: Data, tmp_path: Path) -> None:
    defense = hard_defense(sigma=0.02)
    run(defense, data, tmp_path / "nine", suite="quick")
    result = run(defense, data, tmp_path / "expert", mode="cascade")
    for name, column in result.settings["columns"].items():
        assert (result.seconds[name] == 0) or column["group"] == "expert"


def unit_setting(defense: IGDefense, data: Data, tmp_path: Path) -> Setting:
    columns = columns_of("expert-quick", Linf(0.01), BUDGET)
    chosen = tuple(column for column in columns if column.why_not(defense) is None)
    return Setting(defense, defense.model, data, chosen, 0, Store(tmp_path))


def test_a_unit_depends_on_its_surrogate_its_start_and_who_chooses(
    data: Data, tmp_path: Path
) -> None:
    one, other = (
        unit_setting(hard_defense(sigma=0.02, keep=keep), data, tmp_path) for keep in (2, 3)
    )
    same = {c.name for c in one.columns if one.unit(c) == other.unit(c)}
    assert {"noisy-ce", "noisy-cw", "noisy-t-cw"} < same  # the base and the noise alone
    assert not same & (MASKS_ONLY | NOISE_ONLY | {"high-margin", "warm-eot"})
    deep, warm = one.column("high-margin"), one.column("warm-eot")
    cold = Column(name="cold", attack=warm.attack, samples=warm.samples)
    assert one.unit(cold) != one.unit(warm)
    assert one.unit(deep) != one.unit(Column(name="bare", attack=deep.attack, target="base"))


def test_a_surrogate_is_built_once_and_not_sent_along(data: Data, tmp_path: Path) -> None:
    setting = unit_setting(hard_defense(sigma=0.02), data, tmp_path)
    column = setting.column("joint-mask")
    assert setting.target(column) is setting.target(column)
    sent: Setting = pickle.loads(pickle.dumps(setting))
    assert sent._built == {}
    assert sent.unit(column) == setting.unit(column)


def test_a_warm_column_takes_its_start_from_the_store(
    data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = unit_setting(hard_defense(sigma=0.02), data, tmp_path)
    warm, images, labels = setting.column("warm-eot"), data.images[:4], data.labels[:4]
    ids, given = image_ids(images, labels), []
    assert warm.start is not None
    start, _ = attacked(setting, warm.start, images, labels, ids)
    files = len(list(tmp_path.rglob("*.safetensors")))

    def seen(self: APGD, *_: Any, start: torch.Tensor, **__: Any) -> torch.Tensor:
        given.append(start)
        return start

    monkeypatch.setattr(APGD, "__call__", seen)
    x, _ = attacked(setting, warm, images, labels, ids)
    assert torch.equal(given[0], start)
    assert torch.equal(x, start)
    assert len(list(tmp_path.rglob("*.safetensors"))) == files + 1
