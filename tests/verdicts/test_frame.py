"""The numbers of a run as pandas tables."""

import builtins
import sys
from dataclasses import replace

import pandas
import pytest
import torch

from handmade import handmade
from igdefense.errors import SettingError
from igdefense.verdicts.statistics import Share
from igdefense.verdicts.verdict import Verdict

RUN = handmade("1110", {"a": "1100", "b": "0110"})


def test_the_runs_table_has_its_shares_and_counts() -> None:
    table = RUN.frame()
    assert list(table.index) == ["clean", "a", "b", "IW-WC"]
    assert table["accuracy"].tolist() == [0.75, 0.5, 0.5, 0.25]
    assert table["broken"].tolist() == [pandas.NA, 1, 1, pandas.NA]
    assert table["attacked"].tolist()[1:3] == [3, 3]
    assert (table.loc["b", "low"], table.loc["b", "high"]) == Share(2, 4).interval
    assert "expected" not in table  # nothing random


def test_an_attack_on_survivors_has_counts_but_no_accuracy() -> None:
    met = torch.tensor([True, True, False, False])
    seen = Verdict("b", RUN.verdicts["b"].draws & met[:, None], met)
    table = replace(RUN, verdicts={"b": seen}).frame()
    assert table.loc["b", ["right", "accuracy"]].isna().all()
    assert table.loc["b", ["broken", "attacked"]].tolist() == [1, 2]


def test_a_verdicts_table_has_a_row_for_each_image() -> None:
    draws = torch.tensor([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]]).bool()
    table = Verdict.on_all("a", draws).frame()
    assert table["robust"].tolist() == [True, False]
    assert table["rate"].tolist() == [0.5, 1.0]
    assert table["tested"].all()


def test_without_pandas_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: object) -> object:
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")
        return real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.delitem(sys.modules, "pandas")
    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(SettingError, match=r"pip install 'igdefense\[pandas\]'"):
        RUN.frame()
