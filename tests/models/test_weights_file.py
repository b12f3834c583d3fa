"""Files that are no checkpoints are recognised for what they are, and never run."""

import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from igdefense.errors import ModelError
from igdefense.models.weights_file import read_weights


class Foreign:
    """Not among the types that a weights-only load allows."""


class Trap:
    """Creates a file when unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.file), "w")


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as error:
        read_weights(path)
    return str(error.value)


@pytest.mark.parametrize("suffix", ["pt", "pth", "bin", "tar", "ckpt", "safetensors"])
@pytest.mark.parametrize("page", ["<!DOCTYPE html><html>", "\n <HTML><head>", "\ufeff<html>"])
def test_a_web_page_is_called_one(suffix: str, page: str, tmp_path: Path) -> None:
    path = tmp_path / f"m.{suffix}"
    path.write_text(page + "Sign in</html>", encoding="utf-8")
    assert f"{path} is an HTML page, not a checkpoint: the download was redirected" in refusal(path)


def test_a_git_lfs_pointer_is_called_one(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
    assert "run `git lfs pull`" in refusal(path)


def test_a_checkpoint_that_needs_pickle_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    torch.save({"model": Foreign()}, path)
    says = refusal(path)
    assert "needs pickle (it asks for" in says
    assert "Foreign" in says
    assert "would run code" in says
    assert "m.safetensors" in says
    assert "\n" not in says


@pytest.mark.parametrize("zipped", [True, False])
def test_code_in_a_checkpoint_never_runs(zipped: bool, tmp_path: Path) -> None:
    path, proof = tmp_path / "m.pt", tmp_path / "proof"
    torch.save({"w": Trap(proof)}, path, _use_new_zipfile_serialization=zipped)
    assert "needs pickle" in refusal(path)
    assert not proof.exists()


def test_code_in_a_plain_pickle_never_runs(tmp_path: Path) -> None:
    path, proof = tmp_path / "m.pt", tmp_path / "proof"
    path.write_bytes(pickle.dumps(Trap(proof)))
    assert "it is a plain pickle" in refusal(path)
    assert not proof.exists()


def test_a_torchscript_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/data.pkl", b"")
        archive.writestr("m/constants.pkl", b"")
    assert "it is a TorchScript archive" in refusal(path)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_truncated_checkpoint_is_called_one(zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    torch.save({"w": torch.zeros(1000)}, path, _use_new_zipfile_serialization=zipped)
    path.write_bytes(path.read_bytes()[:-900])
    assert "truncated or damaged" in refusal(path)


@pytest.mark.parametrize("kept", [4, 20, 400])
def test_a_truncated_safetensors_file_is_called_one(kept: int, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    save_file({"w": torch.zeros(1000)}, path)
    path.write_bytes(path.read_bytes()[:kept])
    assert "truncated or damaged" in refusal(path)


def test_an_old_format_is_read(tmp_path: Path) -> None:
    torch.save({"w": torch.arange(3)}, tmp_path / "m.pt", _use_new_zipfile_serialization=False)
    assert read_weights(tmp_path / "m.pt")["w"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("m.pt", b"", "is empty"),
        ("m.pt", b"hello world", "is not a PyTorch checkpoint (it begins with b'hello wo')"),
        ("m.npy", b"hello world", "ends in .npy; checkpoints end in .safetensors, .pt"),
    ],
)
def test_a_file_of_another_kind_is_refused(
    name: str, content: bytes, says: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    assert says in refusal(tmp_path / name)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    assert "is missing; expected a checkpoint" in refusal(tmp_path / "none.pt")
    assert "is a folder" in refusal(tmp_path)


def test_a_tensor_alone_is_refused(tmp_path: Path) -> None:
    torch.save(torch.zeros(2), tmp_path / "m.pt")
    assert "holds a Tensor, not weights by name" in refusal(tmp_path / "m.pt")
