from handmade import handmade
from igdefense.analysis.survival import Survival

RUN = handmade("11110", {"a": "11101", "b": "01110", "c": "11111"})


def test_each_attack_takes_what_the_ones_before_left_standing() -> None:
    survival = Survival.of(RUN)
    assert survival.attacks == ("clean", "a", "b", "c")
    assert [share.count for share in survival.standing] == [4, 3, 2, 2]
    assert survival.newly_broken == (0, 1, 1, 0)


def test_the_last_step_is_the_worst_case() -> None:
    assert Survival.of(RUN).standing[-1] == RUN.worst_case.share


def test_the_table_names_every_step() -> None:
    rows = [line.split() for line in Survival.of(RUN).table().splitlines()]
    assert rows[1][:2] == ["clean", "80.0"]
    assert rows[3][0] == "b"
    assert rows[3][-1] == "1"
