import pytest

from igdefense.data.cifar10 import CLASSES
from igdefense.errors import SettingError
from igdefense.paper.counterparts import accuracy, chosen, counterparts, tables_for

HUNDRED = [f"class {i}" for i in range(100)]


@pytest.mark.parametrize(
    ("names", "eps", "first"),
    [
        (CLASSES, 8, "cifar10-rn18"),
        (CLASSES, 4, None),
        (HUNDRED[:10], 8, None),
        (HUNDRED, 8, "cifar100"),
        (HUNDRED * 10, 4, "imagenet"),
    ],
)
def test_only_the_same_data_and_eps_are_compared(
    names: list[str], eps: int, first: str | None
) -> None:
    assert next(iter(tables_for(names, eps / 255)), None) == first


def test_a_defense_is_found_on_every_base_model_of_the_tables() -> None:
    rows = counterparts("lo-ir", ["cifar10-rn18", "cifar10-wrn"])
    assert list(rows) == [
        *("NuAT RN18", "OAAT RN18", "DAJAT RN18"),
        *("NuAT WRN-34-10", "TR-AWP WRN-34-10", "DAJAT WRN-34-10"),
    ]
    assert rows["DAJAT RN18"]["IW-WC"] == 53.34


def test_controls_are_rows_of_the_ablation() -> None:
    (smoothing,) = counterparts("smoothing", ["cifar10-rn18", "ablation"]).values()
    (random,) = counterparts("random", ["ablation"]).values()
    assert (smoothing["row"], random["row"]) == (2, 5)
    assert counterparts("no such defense", ["cifar10-rn18"]) == {}


def test_a_table_and_a_base_model_give_accuracies_by_the_names_of_our_rows() -> None:
    row = chosen("rivals-extended/OAAT RN18", "hedge")
    assert row is not None
    assert [accuracy(row, name) for name in ("clean", "rays", "IW-WC", "fab")] == [
        *(79.89, 73.24, 50.68),
        None,
    ]
    row = chosen("cifar10-rn18/OAAT RN18", "cd-ir")
    assert row is not None
    assert accuracy(row, "autoattack") == 54.79
    with pytest.raises(SettingError, match="the base models NuAT RN18, OAAT RN18, DAJAT RN18, not"):
        chosen("cifar10-rn18/RN50", "cd-ir")
