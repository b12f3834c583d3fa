"""`igd search` as a user meets it."""

from pathlib import Path

from cli.shell import Igd, Refused

SMALL = ["--suite", "expert-quick", "--test-suite", "expert-quick", "--probe", "data.npz[4:]"]
for pair in ("steps=1", "targets=1", "transfer_targets=1", "fab_steps=1", "square_queries=2"):
    SMALL += ["--budget", pair, "--test-budget", pair]
SPLITS = ["--validation", "data.npz[0:2]", "--test", "data.npz[2:4]", "--first", 2]
NET = "shell_nets:cnn"
POOL = ["--vary", "kind=class-masks", "--vary", "layer=pool"]


def test_a_search_prints_its_rounds_and_its_runs_verify(igd: Igd) -> None:
    ended = igd("search", NET, *POOL, "--vary", "keep=10", *SPLITS, *SMALL, "--out", "found")
    assert ended.code == 0, ended.err
    assert "Round 1, 2 validation images" in ended.out
    assert (
        "No gain is shown: class-masks, lo-ir, pool, keep 10 keeps" in ended.out
    )  # it is the base
    for run in ("found/test/base", "found/test/class-masks-lo-ir-pool-keep-10-*"):
        (path,) = Path().glob(run)
        ended = igd("verify", path)
        assert "every verdict repeated" in ended.out, ended.err


def test_bad_input_is_one_sentence_and_writes_nothing(refused: Refused) -> None:
    end = [*SPLITS, *SMALL, "--out", "found"]
    assert "keep = 11" in refused("search", NET, *POOL, "--vary", "keep=11", *end)
    assert "expected NAME=VALUE" in refused("search", NET, "--vary", "keep", *end)
    assert "share 1 image" in refused("search", NET, *POOL, *end, "--test", "data.npz[1:4]")
    assert "no budget 'step'" in refused("search", NET, *POOL, *end, "--budget", "step=1")
    space = refused("search", NET, *end, "--space", "space.toml")
    assert "space.toml is not a space" in space
    assert "give one of them" in refused("search", NET, *POOL, *end, "--space", "a.toml")
