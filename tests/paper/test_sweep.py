from igdefense.paper.outcome import Outcome, Row
from igdefense.paper.sweep import sweeps_of
from igdefense.verdicts.statistics import Share


def outcome(*rows: Row) -> Outcome:
    return Outcome("any", "figure", {"n": 4}, rows)


def test_each_setting_that_varies_is_a_sweep() -> None:
    found = sweeps_of(
        outcome(
            {"sigma": "1/255", "LO-IR clean": Share(4, 4), "LO-IR AA": Share(2, 4)},
            {"sigma": "4/255", "LO-IR clean": Share(3, 4), "LO-IR AA": Share(1, 4)},
            {"samples": "1", "LO-IR clean": Share(3, 4), "LO-IR AA": Share(1, 4)},
            {"samples": "16", "LO-IR clean": Share(2, 4), "LO-IR AA": Share(0, 4)},
        )
    )
    assert [sweep.setting for sweep in found] == ["sigma", "samples"]
    assert found[0].numbers == (1, 4)
    assert found[1].series == {
        "LO-IR clean": (Share(3, 4), Share(2, 4)),
        "LO-IR AA": (Share(1, 4), Share(0, 4)),
    }


def test_rows_of_several_defenses_are_series() -> None:
    rows: list[Row] = [
        {"defense": defense, "eps": eps, "AA": Share(right, 4)}
        for defense, eps, right in (
            *(("none", "4/255", 3), ("LO-IR-16", "4/255", 4)),
            *(("none", "8/255", 1), ("LO-IR-16", "8/255", 2)),
        )
    ]
    (sweep,) = sweeps_of(outcome(*rows))
    assert sweep.series == {
        "base model AA": (Share(3, 4), Share(1, 4)),
        "LO-IR-16 AA": (Share(4, 4), Share(2, 4)),
    }


def test_names_are_no_numbers_and_a_table_is_no_sweep() -> None:
    layers: list[Row] = [{"layer": f"layer{i}", "LO-IR AA": Share(i, 4)} for i in (1, 2)]
    (sweep,) = sweeps_of(outcome(*layers))
    assert (sweep.values, sweep.numbers) == (("layer1", "layer2"), None)
    assert sweeps_of(outcome({"defense": "none", "clean": Share(3, 4)})) == []
    assert sweeps_of(outcome(layers[0])) == []
