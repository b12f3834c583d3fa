import json
import math
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from benchmarks.__main__ import BENCHMARKS, main, record, summary
from benchmarks.clock import ratios
from benchmarks.hidden import hidden
from benchmarks.memory import Synthetic
from benchmarks.passes import BATCH, rerun
from benchmarks.row import AtLeast, AtMost, Row
from benchmarks.soft_wpmi import drawn, plain_loop
from igdefense import Data
from igdefense.rankings.clip_dissect import soft_wpmi
from nets import make_net

HELD = Row("one", "other", 1.1, (1.0, 1.2), AtMost(1.15))
MISSED = Row("two", "other", 3.9, (3.8, 4.2), AtLeast(4))
FREE = Row("three", "other", 2.0, (2.0, 2.0))


def test_a_benchmark_gives_positive_ratios() -> None:
    (row,) = hidden(images=10, rounds=1, sample=1)
    assert 0 < row.ratio < math.inf
    assert row.spread[0] <= row.ratio <= row.spread[1]


def test_reruns_run_the_whole_net_over_all_images_for_each_neuron() -> None:
    net, seen = make_net("cnn"), 0
    first = next(module for module in net.modules() if isinstance(module, nn.Conv2d))

    def count(_: nn.Module, inputs: tuple[Tensor, ...], __: Tensor) -> None:
        nonlocal seen
        seen += len(inputs[0])

    first.register_forward_hook(count)
    rerun(net, Data(torch.rand(2 * BATCH + 1, 3, 8, 8), torch.zeros(201).long()), "last", [0, 3])
    assert seen == 2 * 201


def test_a_rounds_ratio_is_that_of_the_two_medians(monkeypatch: pytest.MonkeyPatch) -> None:
    now, lengths = 0.0, {"one": iter([9, 3, 6, 5]), "other": iter([9, 2, 2, 1])}

    def work(name: str) -> None:
        nonlocal now
        now += next(lengths[name])

    monkeypatch.setattr("time.perf_counter", lambda: now)
    got = ratios(lambda: work("one"), lambda: work("other"), rounds=1, calls=3)
    assert got == [5 / 2]  # the first call of each is not measured


def test_the_table_prints_the_verdicts_and_a_missed_bar_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "numbers.json"
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setitem(BENCHMARKS, "pretended", lambda: [HELD, MISSED, FREE])
    monkeypatch.setattr(sys, "argv", ["benchmarks", "pretended", "--json", str(file)])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert any("one" in line and "[1, 1.2]" in line and "holds" in line for line in lines)
    assert any("two" in line and ">= 4" in line and "MISSED" in line for line in lines)
    assert json.loads(file.read_text())["rows"][1]["holds"] is False


def test_the_summary_counts_the_bars_and_names_those_missed() -> None:
    assert summary([HELD, MISSED, FREE]) == "1 of 2 bars hold.\nMISSED: two: 3.9, bar >= 4"
    assert record([FREE])["rows"][0]["holds"] is None


def test_synthetic_images_do_not_depend_on_how_they_are_read() -> None:
    source = Synthetic(250)
    assert_close(source[90:110], source[torch.arange(90, 110)], rtol=0, atol=0)
    assert_close(source[199:201][0], source[[199]][0], rtol=0, atol=0)


def test_the_loop_over_neurons_gives_what_soft_wpmi_gives() -> None:
    arguments = drawn(500, 4, 6)
    assert_close(soft_wpmi(*arguments), plain_loop(*arguments), rtol=1e-5, atol=1e-4)
