"""Fixtures that every folder of tests shares."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from igdefense.data.data import Data
from nets import CLASSES, LAYERS, make_net


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is read from or written to the user's cache."""
    folder = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture(params=LAYERS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def net_and_layer(request: pytest.FixtureRequest) -> tuple[nn.Module, str]:
    name, layer = request.param
    return make_net(name), layer


@pytest.fixture
def cnn() -> nn.Module:
    return make_net("cnn")


@pytest.fixture
def images() -> Tensor:
    return torch.rand(9, 3, 8, 8, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def data(images: Tensor) -> Data:
    return Data(images, torch.arange(9) % CLASSES, ["cat", "dog", "bird"])
