import errno
import logging
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

import igdefense.verdicts.store as store_module
from igdefense.attacks.apgd import APGD
from igdefense.attacks.auto_attack import AutoAttack
from igdefense.attacks.price import price
from igdefense.attacks.rays import RayS
from igdefense.attacks.suites import Column
from igdefense.attacks.threat import Linf
from igdefense.errors import SettingError
from igdefense.running.local import Local
from igdefense.running.parcel import Packer, Unpacker
from igdefense.running.pool import Backend, Pool, in_order
from igdefense.running.ray import Ray
from igdefense.verdicts.display import Display
from igdefense.verdicts.job import cut
from igdefense.verdicts.store import Store
from igdefense.verdicts.units import Task
from running.chores import Shared, sleeping, where


def test_a_big_part_travels_once_for_all_jobs() -> None:
    sent: list[bytes] = []

    def put(content: bytes) -> int:
        sent.append(content)
        return len(sent) - 1

    packer, unpacker = Packer(put), Unpacker(lambda number: sent[number])
    big = torch.rand(10_000)
    jobs = [packer.pack(where, Shared(big, factor)) for factor in (1.0, 2.0, 3.0, 4.0)]
    assert sorted(map(len, sent))[:4][-1] < 1000  # the jobs without it
    assert len(sent) == 5
    found = [unpacker.unpack(pickle.loads(pickle.dumps(job)))[1] for job in jobs]
    assert [shared.factor for shared in found] == [1, 2, 3, 4]
    assert all(shared.big is found[0].big for shared in found)
    assert torch.equal(found[0].big, big)
    assert jobs[0] not in unpacker  # two jobs are remembered
    assert jobs[3] in unpacker


def test_results_come_in_the_order_of_the_tasks_if_one_asks_for_it() -> None:
    assert list(in_order(Local(), sleeping(), [0.01, 0.0, 0.02])) == [0.01, 0.0, 0.02]


def test_backends_have_one_interface() -> None:
    assert isinstance(Local(2), Backend)
    assert isinstance(Ray(), Backend)
    assert isinstance(Local(2).pool(sleeping()), Pool)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"workers": 0}, "workers = 0; at least 1"),
        ({"cpus_per_worker": 0.0}, "cpus_per_worker = 0; expected more"),
        ({"gpus_per_worker": -1.0}, "gpus_per_worker = -1; expected 0 or more"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        Ray(**settings)


def test_a_task_is_cut_into_parts_that_hold_every_image_once() -> None:
    pieces = cut(Task((3, 5, 8, 9, 11), "rays"), 2)
    assert sorted(position for piece in pieces for position in piece.positions) == [3, 5, 8, 9, 11]
    assert [len(piece.positions) for piece in pieces] == [3, 2]
    assert len(cut(Task((1, 2)), 9)) == 2


def test_the_price_of_a_column_counts_its_passes() -> None:
    threat = Linf(8 / 255)
    apgd = Column(name="apgd", attack=APGD(threat=threat, steps=10, restarts=2), samples=5)
    assert price(apgd, random=True, inference=2) == 3 * 10 * 2 * 5 * 2
    assert price(apgd, random=False) == 3 * 10 * 2
    rays = Column(name="rays", attack=RayS(threat=threat, queries=70))
    assert price(rays, random=False) == 70
    auto = AutoAttack.standard(threat, steps=10, targets=4, queries=50, fab_steps=5)
    column = Column(name="auto", attack=auto)
    assert price(column, random=False) == 3 * 10 + 3 * 10 * 4 + 3 * 5 * 4 + 50


def test_the_display_tells_each_workers_speed_and_what_happened(
    caplog: pytest.LogCaptureFixture,
) -> None:
    display = Display(10, 2, show=False)
    with caplog.at_level(logging.INFO), display:
        display.worked("one", 4, 2.0)
        display.worked("two", 4, 8.0)
        display.report("apgd", 4, 1)
        display.say("a node is lost")
    assert "1 units done (one: 2/s, two: 0.5/s), 16 of 20 image-attacks left" in caplog.text
    assert "a node is lost" in caplog.text
    for number in range(3):
        display.worked(f"more {number}", 1, 1.0)
    assert display.speed == "5 workers, 0.5 to 2 image-attacks/s each"


def test_a_bar_shows_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    with Display(10, 1, show=True) as display:
        display.worked("one", 4, 2.0)
        display.report("apgd", 4, 1)
        display.say("a node is lost")
    assert "a node is lost" in capsys.readouterr().err


def test_a_shared_folder_whose_server_is_away_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store, x, fails = Store(tmp_path), torch.rand(1, 3, 2, 2), 2
    store.put("unit", ["a"], x, {})
    opened = safe_open

    @contextmanager
    def stale(*arguments: Any, **options: Any) -> Iterator[Any]:
        nonlocal fails
        fails -= 1
        if fails >= 0:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        with opened(*arguments, **options) as file:
            yield file

    monkeypatch.setattr(store_module, "safe_open", stale)
    assert torch.equal(store.get("unit", ["a"])["a"], x[0])
    assert "Stale file handle" in caplog.text
    assert "answers again" in caplog.text
    assert "damaged" not in caplog.text
