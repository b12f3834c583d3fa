import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import igdefense.verdicts.store as store_module
from igdefense.errors import OutputError
from igdefense.verdicts.run import Run
from igdefense.verdicts.store import Store, image_ids

SCRIPT = """
import sys, torch
from pathlib import Path
from igdefense.data.data import Data
from igdefense.defenses.smoothing import Smoothed
from igdefense.models.toys import ConvNet
from igdefense.verdicts.evaluate import evaluate

torch.set_num_threads(1)
net = ConvNet(classes=4).eval()
images = torch.rand(16, 3, 8, 8, generator=torch.Generator().manual_seed(0))
data = Data(images, net(images).argmax(1), list("abcd"))
budget = dict(steps=6, fab_steps=5, square_queries=40, rays_queries=150)
evaluate(Smoothed(net, sigma=0.05), data, base=net, suite="quick", eps=0.03, budget=budget,
         batch_size=4, out=sys.argv[1])
"""


def start(out: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(out)], stderr=subprocess.DEVNULL)


def verdicts(out: Path) -> dict[str, object]:
    record = json.loads((out / "results.json").read_text())
    return {name: column["robust"] for name, column in record["columns"].items()}


def test_a_run_killed_at_any_moment_ends_with_the_verdicts_of_an_undisturbed_one(
    tmp_path: Path,
) -> None:
    assert start(tmp_path / "whole" / "run").wait() == 0
    out = tmp_path / "killed" / "run"
    files = 0
    for wanted in (3, 12, 25):  # finished units when the process is killed
        process = start(out)
        while files < wanted and process.poll() is None:
            time.sleep(0.01)
            files = len(list((tmp_path / "killed").rglob("*.safetensors")))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert not (out / "results.json").exists()
    assert start(out).wait() == 0
    assert verdicts(out) == verdicts(tmp_path / "whole" / "run")


def test_two_processes_may_share_one_store(tmp_path: Path) -> None:
    one, two = start(tmp_path / "one"), start(tmp_path / "two")
    assert (one.wait(), two.wait()) == (0, 0)
    assert verdicts(tmp_path / "one") == verdicts(tmp_path / "two")
    assert Run.load(tmp_path / "one").worst_case.share.total == 16


def test_images_come_back_to_the_last_bit(tmp_path: Path) -> None:
    store, x = Store(tmp_path), torch.rand(3, 3, 4, 4)
    ids = image_ids(x, torch.arange(3))
    store.put("unit", ids, x, {})
    found = store.get("unit", [ids[2], ids[0], "unknown"])
    assert set(found) == {ids[0], ids[2]}
    assert torch.equal(found[ids[2]], x[2])
    assert store.get("other", ids) == {}


def test_the_label_is_part_of_an_images_name() -> None:
    x = torch.rand(1, 3, 4, 4)
    assert image_ids(x, torch.tensor([0])) != image_ids(x, torch.tensor([1]))


def test_a_full_disk_is_one_sentence_and_leaves_the_store_intact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, x = Store(tmp_path), torch.rand(2, 3, 4, 4)
    store.put("unit", ["a", "b"], x, {})

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(store_module, "save_file", full)
    with pytest.raises(OutputError, match="No space left on device"):
        store.put("unit", ["c", "d"], x, {})
    assert torch.equal(store.get("unit", ["b"])["b"], x[1])
    assert len(list(tmp_path.rglob("*"))) == 2  # the unit's folder and its one file
