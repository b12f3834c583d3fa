"""What may happen to a run on a cluster of two nodes, one fault after another."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from igdefense.errors import OutputError, SettingError
from igdefense.running.local import Local
from igdefense.running.pool import Backend, Job, WorkerError
from igdefense.running.ray import Ray
from igdefense.verdicts.run import Run
from running import faults, toy
from running.chores import Shared, process_of, sleeping, where
from running.machines import Machines, machines
from running.objects import BUCKET, Objects, object_store

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def objects() -> Iterator[Objects]:
    with pytest.MonkeyPatch.context() as patch, object_store(patch) as found:
        yield found


@pytest.fixture(scope="module")
def two(objects: Objects) -> Iterator[Machines]:
    """The nodes; they know where the object store is."""
    with machines() as found:
        yield found


@pytest.fixture(scope="module")
def trouble(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trouble")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, trouble: Path) -> Run:
    return toy.run(tmp_path_factory.mktemp("alone") / "run", trouble)


def until(happens: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)


def meanwhile(act: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=act)
    thread.start()
    return thread


def wait_for_both(backend: Ray) -> None:
    """A worker on each node is there, so that each will have a part of the next run."""
    with backend.pool(Job(process_of, None)) as pool:
        until(lambda: len(set(pool.results([0.2] * 6))) == 2)


@pytest.mark.parametrize("backend", [Local(2), None], ids=["two processes", "two nodes"])
@pytest.mark.parametrize("mode", ["full", "cascade"])
def test_every_backend_gives_the_same_verdicts(
    backend: Backend | None, mode: str, two: Machines, trouble: Path, tmp_path: Path
) -> None:
    here = toy.run(tmp_path / "a" / "run", trouble, mode=mode)
    with backend or Ray(two.address) as where:
        there = toy.run(tmp_path / "b" / "run", trouble, mode=mode, backend=where, batch_size=5)
    assert toy.same(here, there)


def test_a_lost_node_costs_nothing_but_its_unfinished_units(
    two: Machines, alone: Run, trouble: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (trouble / faults.HOLD).write_text(two.second.node_id)

    def lose() -> None:
        until((trouble / "held").exists)
        two.lose_second()

    thread = meanwhile(lose)
    with caplog.at_level(logging.INFO), Ray(two.address) as backend:
        wait_for_both(backend)
        far = toy.run(tmp_path / "run", trouble, backend=backend)
    thread.join()
    two.add_second()
    assert toy.same(far, alone)
    assert "died during troubled on 4 images (its node does not answer)" in caplog.text
    assert "18 units done" in [line for line in caplog.messages if "units done" in line][-1]


def test_a_node_that_joins_gets_a_worker(two: Machines) -> None:
    two.lose_second()
    with Ray(two.address) as backend:
        with backend.pool(sleeping()) as pool:
            until(lambda: pool.workers == 1)
            assert sorted(pool.results([0.1, 0.2])) == [0.1, 0.2]
        two.add_second()
        until(lambda: pool.workers == 2)
        wait_for_both(backend)


def test_a_killed_driver_frees_the_cluster_and_the_same_command_resumes(
    two: Machines, alone: Run, trouble: Path, tmp_path: Path
) -> None:
    out, store = tmp_path / "run", tmp_path / ".store"
    (trouble / faults.HOLD).touch()
    (trouble / "held").unlink(missing_ok=True)
    with start(two, out, trouble) as process:
        until(lambda: (trouble / "held").exists() and len(list(store.rglob("*.safetensors"))) > 2)
        os.kill(process.pid, signal.SIGKILL)
    assert not (out / "results.json").exists()
    kept = {path: path.stat().st_mtime_ns for path in store.rglob("*.safetensors")}
    with start(two, out, trouble) as finished:
        pass
    assert finished.returncode == 0  # it found room: the first driver's workers are gone
    assert toy.same(Run.load(out), alone)
    assert all(path.stat().st_mtime_ns == time for path, time in kept.items())


def test_an_interrupted_driver_leaves_what_is_finished_and_frees_the_cluster(
    two: Machines, alone: Run, trouble: Path, tmp_path: Path
) -> None:
    out, store = tmp_path / "run", tmp_path / ".store"
    (trouble / faults.HOLD).touch()
    (trouble / "held").unlink(missing_ok=True)
    with start(two, out, trouble) as process:
        until((trouble / "held").exists)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    assert process.returncode != 0
    assert f"Finished units are in {store}; the same command resumes" in said
    assert list(store.rglob("*.safetensors"))
    with Ray(two.address) as backend:
        assert toy.same(toy.run(out, trouble, backend=backend), alone)


def test_a_store_that_is_away_for_ten_seconds_is_waited_for(
    two: Machines,
    objects: Objects,
    alone: Run,
    trouble: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def leave() -> None:
        until(lambda: sum(key.endswith(".safetensors") for key in objects.names()) > 3)
        objects.away_for(10).join()

    thread, started = meanwhile(leave), time.monotonic()
    with caplog.at_level(logging.INFO), Ray(two.address) as backend:
        far = toy.run(tmp_path / "run", trouble, backend=backend, store=f"s3://{BUCKET}/far")
    thread.join()
    assert time.monotonic() - started > 10
    assert toy.same(far, alone)
    assert "The store s3://units/far does not answer" in caplog.text
    assert "The store s3://units/far answers again after" in caplog.text
    assert not (tmp_path / ".store").exists()
    kept = sorted(objects.names())
    again = toy.run(tmp_path / "again", trouble, store=f"s3://{BUCKET}/far")
    assert toy.same(again, alone)
    assert sorted(objects.names()) == kept  # every unit is there, if some in two pieces


def test_a_straggler_is_cut_and_counts_once(
    two: Machines, trouble: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker on the second node never ends its unit; the other does it in two halves."""
    alone = toy.run(tmp_path / "alone" / "run", trouble)
    (trouble / faults.HOLD).write_text(two.second.node_id)
    with caplog.at_level(logging.INFO), Ray(two.address) as backend:
        wait_for_both(backend)
        far = toy.run(tmp_path / "far" / "run", trouble, backend=backend)
    assert toy.same(far, alone)
    last = [line for line in caplog.messages if "units done" in line][-1]
    assert "19 units done" in last  # five whole shards of that column, and one in two pieces
    assert "0 of 72 image-attacks left" in last


def test_a_unit_that_ends_every_worker_ends_the_run_with_one_sentence(two: Machines) -> None:
    with (
        pytest.raises(WorkerError, match=r"has ended 4 workers .* smaller --batch-size"),
        Ray(two.address) as backend,
        backend.pool(sleeping()) as pool,
    ):
        list(pool.results([-1.0]))


def test_a_mistake_in_a_unit_is_the_users_sentence(two: Machines) -> None:
    with (
        pytest.raises(SettingError, match=r"^7\.0 is too long\.$"),
        Ray(two.address) as backend,
        backend.pool(sleeping()) as pool,
    ):
        list(pool.results([7.0]))


def test_a_store_that_workers_do_not_see_is_refused(
    two: Machines, trouble: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process has a memory of its own: none but the driver sees this one."""
    with (
        pytest.raises(OutputError, match="does not see the store memory://mine"),
        Ray(two.address) as backend,
    ):
        toy.run(tmp_path / "run", trouble, backend=backend, store="memory://mine")


def test_more_than_the_cluster_has_is_refused_before_anything_is_written(
    two: Machines, trouble: Path, tmp_path: Path
) -> None:
    for wanted in ({"gpus_per_worker": 1.0}, {"cpus_per_worker": 2.0}):
        with pytest.raises(SettingError, match="No machine of the cluster has"):
            toy.run(tmp_path / "run", trouble, backend=Ray(two.address, **wanted))  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_second_job_finds_model_and_data_with_the_workers(two: Machines) -> None:
    with Ray(two.address, workers=1) as backend:
        answers = []
        big = torch.rand(1000)
        for factor in (2.0, 3.0):
            with backend.pool(Job(where, Shared(big, factor))) as pool:
                answers += list(pool.results([0]))
        (first, process), (second, other) = answers
        assert process == other
        assert first == second  # the very same object in that process


def start(two: Machines, out: Path, trouble: Path) -> "subprocess.Popen[str]":
    tests = Path(__file__).parents[1]
    code = [sys.executable, str(tests / "running" / "driver.py"), two.address, out, trouble]
    path = os.pathsep.join([str(tests), str(tests.parent / "src")])
    return subprocess.Popen(
        list(map(str, code)),
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
