"""Cached tensors come back as they were, or not at all."""

from pathlib import Path

import pytest
import torch

from igdefense.rankings.cache import Cache, default_folder

NUMBERS = torch.arange(12.0).reshape(3, 4)


def test_a_tensor_comes_back_under_its_own_key_only(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "new")
    assert cache.get("kind", "a", "b") is None
    cache.put(NUMBERS, "kind", "a", "b")
    found = cache.get("kind", "a", "b")
    assert found is not None
    assert torch.equal(found, NUMBERS)
    for other in (("kind", "a"), ("kind", "b", "a"), ("kind", "ab"), ("other", "a", "b")):
        assert cache.get(*other) is None


@pytest.mark.parametrize("damage", ["cut", "flip", "text", "empty"])
def test_a_damaged_file_is_told_of_and_counts_as_missing(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = Cache(tmp_path)
    cache.put(NUMBERS, "kind", "key")
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    flipped = whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:]
    content = {"cut": whole[:-9], "flip": flipped, "text": b"not a tensor", "empty": b""}
    path.write_bytes(content[damage])
    assert cache.get("kind", "key") is None
    assert f"{path} is damaged" in caplog.text
    cache.put(NUMBERS, "kind", "key")
    assert path.read_bytes() == whole


def test_a_folder_that_cannot_be_written_is_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    Cache(tmp_path / "file" / "cache").put(NUMBERS, "kind")
    assert "Nothing is cached" in caplog.text


def test_the_default_folder_follows_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_folder() == Path("/somewhere/igdefense/cd-ir")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert default_folder() == Path.home() / ".cache/igdefense/cd-ir"
