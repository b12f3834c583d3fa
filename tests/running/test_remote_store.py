import logging
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import torch

from igdefense import patience
from igdefense.errors import OutputError, SettingError
from igdefense.verdicts.remote_store import RemoteStore, store_at
from igdefense.verdicts.store import Store, image_ids
from running.objects import BUCKET, Objects, object_store


@pytest.fixture(scope="module")
def objects() -> Iterator[Objects]:
    with pytest.MonkeyPatch.context() as patch, object_store(patch) as found:
        yield found


@pytest.fixture
def store(objects: Objects, request: pytest.FixtureRequest) -> Store:
    return store_at(f"s3://{BUCKET}/{request.node.name}")


def test_images_come_back_from_an_object_store_to_the_last_bit(store: Store) -> None:
    x = torch.rand(5, 3, 4, 4)
    ids = image_ids(x, torch.arange(5))
    store.put("unit", ids[:3], x[:3], {})
    store.put("unit", ids[2:], x[2:], {})
    other = pickle.loads(pickle.dumps(store))  # as a worker has it
    found = other.get("unit", [ids[4], ids[0], "unknown"])
    assert set(found) == {ids[0], ids[4]}
    assert torch.equal(found[ids[4]], x[4])
    assert other.get("another", ids) == {}


def test_a_file_with_more_names_than_its_beginning_holds_is_read_whole(store: Store) -> None:
    ids = [f"{number:020d}" for number in range(1000)]
    x = torch.rand(1000, 1, 1, 1)
    store.put("unit", ids, x, {})
    assert torch.equal(store.get("unit", ids[-1:])[ids[-1]], x[-1])


def test_what_another_worker_writes_is_seen(store: Store) -> None:
    other = store_at(store.root)
    assert store.get("unit", ["a"]) == {}
    other.put("unit", ["a"], torch.ones(1, 3, 2, 2), {})
    assert set(store.get("unit", ["a"])) == {"a"}


def test_a_damaged_object_is_dropped(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    assert isinstance(store, RemoteStore)
    store.put("unit", ["a"], torch.ones(1, 3, 2, 2), {})
    files, folder = store._open()
    (path,) = files.ls(f"{folder}/unit", detail=False)
    files.pipe_file(path, files.cat_file(path)[:-1] + b"!")
    assert store.get("unit", ["a"]) == {}
    assert "checksum does not match" in caplog.text
    files.invalidate_cache()
    assert not files.exists(path)


def test_a_store_that_is_away_is_tried_again_and_the_log_says_so(
    objects: Objects, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    x = torch.rand(1, 3, 2, 2)
    store.put("unit", ["a"], x, {})
    timer, started = objects.away_for(1.5), time.monotonic()
    with caplog.at_level(logging.WARNING):
        store.put("unit", ["b"], x, {})
        found = store.get("unit", ["a", "b"])
    timer.join()
    assert time.monotonic() - started > 1.5
    assert set(found) == {"a", "b"}
    assert "does not answer" in caplog.text
    assert "answers again after" in caplog.text


def test_a_store_that_stays_away_is_one_sentence(
    objects: Objects, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PATIENCE", 0.5)
    objects.leave()
    with pytest.raises(OutputError, match=r"has not answered for .* the same command goes on"):
        store.get("unit", ["a"])
    objects.come_back()


def test_a_bucket_that_does_not_exist_is_refused_and_not_made(objects: Objects) -> None:
    with pytest.raises(OutputError, match="cannot be written"):
        store_at("s3://elsewhere/units").put("unit", ["a"], torch.ones(1, 3, 2, 2), {})


def test_a_worker_that_sees_another_store_refuses_to_work(store: Store) -> None:
    store.sign()
    travelled = pickle.loads(pickle.dumps(store))
    travelled.arrived()
    travelled.root, travelled._opened = f"s3://{BUCKET}/other", None
    with pytest.raises(OutputError, match="does not see the store"):
        travelled.arrived()
    again = store_at(store.root)
    again.sign()
    assert again.name == store.name


def test_other_file_systems_work_too() -> None:
    store = store_at("memory://somewhere/deep")
    store.put("unit", ["a"], torch.ones(1, 3, 2, 2), {})
    assert set(store.get("unit", ["a", "b"])) == {"a"}


def test_an_unknown_address_is_refused() -> None:
    with pytest.raises(SettingError, match="no address of a store"):
        store_at("nowhere://units")


def test_importing_igdefense_imports_neither_ray_nor_s3fs() -> None:
    code = "import igdefense.cli, sys; print({'ray', 's3fs', 'botocore'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
