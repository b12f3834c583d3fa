"""On a real cluster of two nodes; more faults are in test_cluster_faults.py, which is slow."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from igdefense.data.data import Data
from igdefense.rankings.leave_one_out import leave_one_out
from igdefense.running.ray import Ray
from igdefense.verdicts.run import Run
from nets import make_net
from running import faults, toy
from running.machines import machines


@pytest.fixture(scope="module")
def cluster() -> Iterator[Ray]:
    with machines() as found, Ray(found.address) as backend:
        yield backend


@pytest.fixture(scope="module")
def trouble(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trouble")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, trouble: Path) -> Run:
    """The run in one process, undisturbed."""
    return toy.run(tmp_path_factory.mktemp("alone") / "run", trouble)


def test_two_nodes_give_the_verdicts_of_one_process_though_a_worker_is_killed_mid_unit(
    cluster: Ray, alone: Run, trouble: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (trouble / faults.KILL).touch()
    with caplog.at_level(logging.INFO):
        far = toy.run(tmp_path / "run", trouble, backend=cluster)
    assert not (trouble / faults.KILL).exists()
    assert toy.same(far, alone)
    assert "died during troubled on 4 images" in caplog.text
    last = [line for line in caplog.messages if "units done" in line][-1]
    assert "18 units done" in last  # three columns on six shards: none lost, none twice
    assert "0 of 72 image-attacks left" in last
    assert last.count("/s") >= 2  # each worker's speed


def test_a_run_started_here_is_finished_on_the_cluster(
    cluster: Ray, alone: Run, trouble: Path, tmp_path: Path
) -> None:
    (trouble / faults.CUT_OFF).touch()
    with pytest.raises(KeyboardInterrupt):
        toy.run(tmp_path / "run", trouble)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.safetensors")}
    assert len(kept) >= 6
    finished = toy.run(tmp_path / "run", trouble, backend=cluster)
    assert toy.same(finished, alone)
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())  # not made twice


def test_a_ranking_is_the_same_to_the_last_bit_on_a_cluster(cluster: Ray) -> None:
    net, images = (
        make_net("cnn"),
        torch.rand(9, 3, 8, 8, generator=torch.Generator().manual_seed(1)),
    )
    data = Data(images, torch.arange(9) % 3)
    for layer in ("conv2", "last"):  # masked in turn, and in closed form
        here = leave_one_out(net, data, layer, batch_size=2)
        there = leave_one_out(net, data, layer, batch_size=2, backend=cluster)
        assert torch.equal(here.scores, there.scores)
