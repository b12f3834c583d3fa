"""The demo's table, on a few images."""

import pytest

from igdefense import demo
from igdefense.data.data import Data
from igdefense.data.datasets import load_data
from igdefense.demo import Row, first_look


def few(spec: str, *, n: int | None = None) -> Data:
    return load_data(spec, n=n or 20)


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    monkeypatch.setattr(demo, "load_data", few)
    return first_look(n=12, keep=16, steps=4, eps=32 / 255)


def test_the_table_has_the_base_model_the_defense_and_its_controls(rows: list[Row]) -> None:
    assert [row.name for row in rows] == [
        "base model",
        "IG-Defense, LO-IR-16",
        "IG-Defense, CD-IR-16",
        "random ranking-16",
        "smoothing alone",
    ]
    assert {share.total for row in rows for share in (row.clean, row.attacked)} == {12}


def test_the_base_model_loses_under_attack(rows: list[Row]) -> None:
    assert rows[0].attacked.count < rows[0].clean.count


def test_the_table_is_the_same_in_any_batch(
    rows: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = demo._with_positions
    monkeypatch.setattr(demo, "_with_positions", lambda data, _: whole(data, 5))
    assert first_look(n=12, keep=16, steps=4, eps=32 / 255) == rows
