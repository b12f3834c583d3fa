"""An exported defense computes what PyTorch computes, in one graph for any batch."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from deploy.defended_nets import NAMES, SEED, made
from igdefense import Hedge, Ranking, Smoothed, export, load_exported
from igdefense.defenses.averaged import AveragedDefense
from igdefense.defenses.layered import LayeredDefense
from igdefense.deploy.exporting import NoiseChoice, with_noise
from igdefense.errors import ModelError, SettingError
from nets import make_net

DRAWS = 1000
SOME = [
    ("embedded", "frozen", ".onnx"),
    ("wide", "off", ".onnx"),
    ("vit", "frozen", ".pt2"),
]  # the others are slow tests
EVERY = [(n, noise, s) for n in NAMES for noise in ("off", "frozen") for s in (".onnx", ".pt2")]


def slowly(cases: list[tuple[str, ...]]) -> list[object]:
    return [pytest.param(*case, marks=pytest.mark.slow) for case in cases]


@pytest.mark.parametrize(
    ("name", "noise", "suffix"), [*SOME, *slowly([case for case in EVERY if case not in SOME])]
)
def test_without_noise_or_with_frozen_noise_the_graph_agrees_with_pytorch(
    name: str, noise: NoiseChoice, suffix: str, tmp_path: Path
) -> None:
    defense, images = made(name)
    defense = with_noise(defense, noise)
    written = export(defense, tmp_path / f"graph{suffix}", images=images[:1])
    assert written.difference < 1e-4
    graph = load_exported(written.path, trust=True)
    with torch.no_grad():
        for count in (1, 2, 7):  # one graph for every size of batch
            assert_close(graph(images[:count]), defense(images[:count]), rtol=0, atol=1e-4)
            assert_close(graph(images[:count]), graph(images[:count]), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("vit", ".onnx"),
        ("wide", ".pt2"),
        *slowly([("embedded", ".onnx"), ("embedded", ".pt2"), ("wide", ".onnx"), ("vit", ".pt2")]),
    ],
)
def test_fresh_noise_has_the_distribution_of_pytorchs(
    name: str, suffix: str, tmp_path: Path
) -> None:
    defense, images = made(name, samples=1)
    written = export(defense, tmp_path / f"graph{suffix}", images=images)
    assert written.random
    assert written.difference < 1e-4  # on the same noise
    graph = load_exported(written.path, seed=0, trust=True)
    many = images[:1].expand(DRAWS, -1, -1, -1)
    with torch.no_grad():
        ours, theirs = graph(many).double(), defense(many).double()
    error = ((ours.var(0) + theirs.var(0)) / DRAWS).sqrt()
    assert (error > 0).all()
    assert ((ours.mean(0) - theirs.mean(0)).abs() <= 3 * error).all()
    assert_close(ours.std(0), theirs.std(0), rtol=0.15, atol=0)


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
def test_noise_differs_between_rows_calls_samples_and_sessions_unless_seeded(
    suffix: str, tmp_path: Path
) -> None:
    smoothed = Smoothed(Pixels().eval(), sigma=0.5, samples=2)
    images = torch.zeros(3, 3, 2, 2)
    path = export(smoothed, tmp_path / f"noise{suffix}", images=images).path
    graph, other = (load_exported(path, trust=True) for _ in range(2))
    drawn = torch.cat([graph(images), graph(images), other(images)])
    assert len(drawn.unique()) == drawn.numel() == 9 * 12
    many = graph(torch.zeros(DRAWS, 3, 2, 2))
    assert_close(many.std(), torch.tensor(0.5 / 2**0.5), rtol=0.05, atol=0)  # a mean of two

    state = torch.get_rng_state()
    one, same = (load_exported(path, seed=7, trust=True) for _ in range(2))
    first, second = one(images), one(images)
    assert_close((same(images), same(images)), (first, second), rtol=0, atol=0)
    assert (first != second).any()
    assert_close(torch.get_rng_state(), state)


def test_the_file_says_what_it_holds_and_the_defense_is_as_before(tmp_path: Path) -> None:
    defense, images = made("cnn")
    keys = list(range(7))
    with torch.no_grad():
        before = defense(images, keys)
        written = export(defense, tmp_path / "cnn.pt2", images=images)
        assert_close(defense(images, keys), before, rtol=0, atol=0)
    assert any(parameter.requires_grad for parameter in defense.parameters())
    graph = load_exported(written.path, trust=True)
    assert graph.size == (3, 8, 8)
    assert graph.about["settings"] == json.loads(json.dumps(defense.settings))
    assert graph.about["settings"]["seed"] == SEED
    assert graph.about["layer"] == "last"
    with pytest.raises(ModelError, match="takes images of 3 x 8 x 8; these are 3 x 9 x 9"):
        graph(torch.rand(1, 3, 9, 9))


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["fresh", "off"])
def test_the_relatives_of_the_defense_keep_their_kind(noise: NoiseChoice, tmp_path: Path) -> None:
    own, images = made("cnn")
    first = Ranking("conv1", torch.rand(3, 6))
    relatives = (
        own.varied(temperature=0),
        AveragedDefense(own.model, own.ranking, 4, sigma=0.2, samples=2),
        LayeredDefense(own.model, [first, own.ranking], 4, sigma=0.2),
    )
    for number, relative in enumerate(relatives):
        changed = with_noise(relative, noise)
        assert type(changed) is type(relative)
        written = export(changed, tmp_path / f"{number}.pt2", images=images)
        assert written.difference < 1e-4
        assert written.random == (noise == "fresh")


def test_an_archive_is_not_opened_unless_it_is_trusted(tmp_path: Path) -> None:
    (tmp_path / "theirs.pt2").write_bytes(b"anything")
    with pytest.raises(ModelError, match=r"can run code.*trust=True"):
        load_exported(tmp_path / "theirs.pt2")
    with pytest.raises(ModelError, match=r"not a torch\.export archive"):
        load_exported(tmp_path / "theirs.pt2", trust=True)


def test_what_cannot_be_one_graph_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    images = torch.rand(2, 3, 8, 8)
    with pytest.raises(ModelError, match=r"Untraceable cannot be exported.*look at values"):
        export(make_net("untraceable"), tmp_path / "graph.pt2", images=images)
    with pytest.raises(ModelError, match="Hedge follows gradients"):
        export(Hedge(make_net("cnn")), tmp_path / "graph.onnx", images=images)
    with pytest.raises(SettingError, match=r"names no format; expected onnx \(.onnx\)"):
        export(make_net("cnn"), tmp_path / "graph.bin", images=images)
    with pytest.raises(SettingError, match=r"in the format onnx is named \*.onnx"):
        export(make_net("cnn"), tmp_path / "graph.pt2", images=images, format="onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_graph_that_computes_something_else_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, images = make_net("cnn"), torch.rand(2, 3, 8, 8)
    other = make_net("cnn")
    nn.init.ones_(other.get_submodule("fc").weight)  # type: ignore[arg-type]
    monkeypatch.setattr("igdefense.deploy.exporting.deployed", lambda *_: other)
    with pytest.raises(ModelError, match="differs from the model by"):
        export(net, tmp_path / "graph.pt2", images=images)
    assert list(tmp_path.iterdir()) == []


class Pixels(nn.Module):
    """Its logits are the pixels."""

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1)
