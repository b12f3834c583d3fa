import pytest

from igdefense.attacks.apgd import APGD, TargetedAPGD
from igdefense.attacks.auto_attack import AutoAttack
from igdefense.attacks.rays import RayS
from igdefense.attacks.suites import cheapest_first, suite
from igdefense.attacks.threat import Linf
from igdefense.errors import SettingError

THREAT = Linf(8 / 255)


def test_the_paper_suite_has_the_papers_budgets() -> None:
    columns = {column.name: column for column in suite("paper", THREAT)}
    assert len(columns) == 9
    assert columns["autoattack"].attack == AutoAttack.standard(THREAT, targets=9)
    assert columns["apgd-eot"].samples == 20
    assert isinstance(columns["rays"].attack, RayS)
    assert columns["rays"].attack.queries == 10_000
    for name in ("autoattack", "rays", "apgd-eot"):
        assert columns[f"transfer-{name}"].attack == columns[name].attack
        assert (columns[name].target, columns[f"transfer-{name}"].target) == ("defense", "base")


def test_transferred_apgd_never_returns_the_clean_image() -> None:
    attacks = [
        c.attack for c in suite("paper", THREAT) if isinstance(c.attack, APGD | TargetedAPGD)
    ]
    assert len(attacks) == 3
    assert all(attack.best == "strict" and attack.steps == 100 for attack in attacks)


def test_overrides_reach_the_attacks() -> None:
    (column,) = suite("autoattack", THREAT, {"steps": 7, "square_queries": 11})
    assert column.attack == AutoAttack.standard(THREAT, steps=7, queries=11, targets=9)


def test_a_cascade_begins_with_the_transferred_gradients_and_ends_with_rays() -> None:
    names = [column.name for column in cheapest_first(suite("paper", THREAT))]
    assert names[:3] == ["transfer-apgd-ce", "transfer-apgd-cw", "transfer-apgd-t-dlr"]
    assert names[-1] == "rays"
    assert sorted(names) == sorted(column.name for column in suite("paper", THREAT))


def test_the_stronger_setting_is_the_papers() -> None:
    (column,) = suite("autoattack-stronger", THREAT)
    assert column.attack == AutoAttack.stronger(THREAT)
    with pytest.raises(SettingError, match="fixed"):
        suite("autoattack-stronger", THREAT, {"steps": 3})
