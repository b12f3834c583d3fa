"""CD-IR where the answer is known: neurons that see a colour, names of colours."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.testing import assert_close

import igdefense as igd
from igdefense.data.data import Data
from igdefense.errors import DataError, LayerNotFoundError, ModelError, SettingError
from igdefense.layers import reading
from igdefense.rankings.cache import Cache
from igdefense.rankings.clip_dissect import soft_wpmi
from igdefense.rankings.encoders.encoder import Encoder
from nets import make_net

COLOURS = ("red", "green", "blue")


class Looker(nn.Module):
    """Neuron c of `layer` sees channel c; it counts the images it is shown."""

    def __init__(self, gain: float = 1) -> None:
        super().__init__()
        self.layer, self.pool = nn.Identity(), nn.AdaptiveAvgPool2d(1)
        self.gain, self.seen = gain, 0

    def forward(self, images: Tensor) -> Tensor:
        self.seen += len(images)
        return self.pool(self.layer(self.gain * images)).flatten(1) - 1


class Colours:
    """Embeds an image as its mean colour, a text as the colours it names; it counts its images."""

    def __init__(self) -> None:
        self.identity, self.seen = "colours", 0

    def images(self, images: Tensor) -> Tensor:
        self.seen += len(images)
        return normalize(images.mean((2, 3)), dim=1)

    def texts(self, texts: Sequence[str]) -> Tensor:
        return normalize(torch.tensor([[float(c in t) for c in COLOURS] for t in texts]), dim=1)


@pytest.fixture
def probe() -> Data:
    """Dim images of one colour each, from hardly to fully: the cosine rises with the colour."""
    rng, labels = torch.Generator().manual_seed(0), torch.arange(150) % 3
    tints = torch.full((150, 3), 0.3)
    tints[torch.arange(150), labels] = torch.rand(150, generator=rng)
    return Data(tints[:, :, None, None].expand(-1, -1, 4, 4).contiguous(), labels, COLOURS)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.mark.parametrize(
    "similarity", ["soft-wpmi", "wpmi", "rank-reorder", "cosine", "cosine-cubed"]
)
def test_every_measure_finds_the_neuron_that_sees_the_colour(
    similarity: str, probe: Data, cache: Cache
) -> None:
    model, top = Looker().eval(), 20 if similarity == "soft-wpmi" else None
    ranking = igd.clip_dissect(
        model, probe, "layer", encoder=Colours(), similarity=similarity, cache=cache, top_k=top
    )
    assert ranking.order[:, 0].tolist() == [0, 1, 2]
    again = igd.clip_dissect(
        model,
        probe,
        "layer",
        encoder=Colours(),
        similarity=similarity,
        cache=cache,
        class_names=("blue", "red", "green"),
        top_k=top,
    )
    assert again.order[:, 0].tolist() == [2, 0, 1]


def test_encoder_is_a_protocol() -> None:
    assert isinstance(Colours(), Encoder)


@pytest.mark.parametrize(
    ("name", "layer"), [("mlp", "act"), ("cnn", "conv2"), ("vit", "blocks.0"), ("cnn", "last")]
)
def test_the_scores_are_soft_wpmi_of_cosines_and_mean_activations(
    name: str, layer: str, data: Data, cache: Cache
) -> None:
    net, encoder = make_net(name), Colours()
    ranking = igd.clip_dissect(
        net, data, layer, encoder=encoder, class_names=COLOURS, cache=cache, batch_size=4
    )
    with reading(net, layer) as outputs, torch.no_grad():
        net(data.images[:])
    axes = {2: (), 3: (1,), 4: (2, 3)}[outputs[0].ndim]
    activations = outputs[0].mean(axes) if axes else outputs[0]
    cosines = encoder.images(data.images[:]) @ encoder.texts(COLOURS).T
    assert_close(ranking.scores, soft_wpmi(cosines, activations), rtol=1e-4, atol=1e-4)


def test_several_layers_cost_one_pass_and_a_second_call_none(probe: Data, cache: Cache) -> None:
    model, encoder = Looker().eval(), Colours()
    both = igd.clip_dissect_layers(model, probe, ("layer", "pool"), encoder=encoder, cache=cache)
    assert (model.seen, encoder.seen) == (150 + 4, 150)  # two images are looked at before, twice
    model.seen = encoder.seen = 0
    once = igd.clip_dissect(model, probe, "pool", encoder=encoder, similarity="wpmi", cache=cache)
    again = igd.clip_dissect(model, probe, "pool", encoder=encoder, cache=cache)
    assert (model.seen, encoder.seen) == (8, 0)
    assert torch.equal(again.scores, both["pool"].scores)
    assert not torch.equal(once.scores, again.scores)


def test_other_names_cost_no_images_and_other_images_do(probe: Data, cache: Cache) -> None:
    model, encoder = Looker().eval(), Colours()
    igd.clip_dissect(model, probe, "layer", encoder=encoder, cache=cache)
    encoder.seen = 0
    names = ("green", "red", "blue")
    igd.clip_dissect(model, probe, "layer", encoder=encoder, class_names=names, cache=cache)
    assert encoder.seen == 0
    igd.clip_dissect(model, probe[:149], "layer", encoder=encoder, cache=cache)
    assert encoder.seen == 149


def test_a_model_of_the_same_weights_that_answers_otherwise_is_not_taken_from_the_cache(
    probe: Data, cache: Cache
) -> None:
    plain, gained = Looker().eval(), Looker(gain=-1).eval()
    one, other = (
        igd.clip_dissect(m, probe, "layer", encoder=Colours(), cache=cache) for m in (plain, gained)
    )
    assert one.provenance["model"] == other.provenance["model"]
    assert gained.seen == 150 + 4
    assert not torch.equal(one.scores, other.scores)


def test_a_damaged_cache_is_noticed_and_made_anew(
    probe: Data, cache: Cache, caplog: pytest.LogCaptureFixture
) -> None:
    model = Looker().eval()
    first = igd.clip_dissect(model, probe, "layer", encoder=Colours(), cache=cache)
    files = sorted(cache.folder.iterdir())
    assert [path.name.split("-")[0] for path in files] == ["activations", "cosines", "embeddings"]
    for path in files:
        path.write_bytes(path.read_bytes()[:-1])
    second = igd.clip_dissect(model, probe, "layer", encoder=Colours(), cache=cache)
    assert torch.equal(first.scores, second.scores)
    assert all(f"{path} is damaged" in caplog.text for path in files)


def test_templates_are_averaged(probe: Data, cache: Cache) -> None:
    class Moody(Colours):
        def texts(self, texts: Sequence[str]) -> Tensor:
            shift = torch.tensor([[0.0, 0, 2 * ("night" in t)] for t in texts])
            return normalize(super().texts(texts) + shift, dim=1)

    model, day, night = Looker().eval(), "a {} day", "a {} night"
    ranked = [
        igd.clip_dissect(model, probe, "layer", encoder=Moody(), templates=some, cache=cache).scores
        for some in ((day,), (night,), (day, night))
    ]
    assert not torch.equal(ranked[0], ranked[1])
    texts = [Moody().texts([t.format(c) for c in COLOURS]) for t in (day, night)]
    mean = normalize((texts[0] + texts[1]) / 2, dim=1)
    cosines = Colours().images(probe.images[:]) @ mean.T
    expected = soft_wpmi(cosines, probe.images[:].mean((2, 3)))
    assert_close(ranked[2], expected, rtol=1e-4, atol=1e-4)


def test_a_probe_set_smaller_than_top_k_is_told_of(
    probe: Data, cache: Cache, caplog: pytest.LogCaptureFixture
) -> None:
    ranking = igd.clip_dissect(Looker().eval(), probe[:60], "layer", encoder=Colours(), cache=cache)
    assert "60 images, fewer than top_k = 100: all 60 were used" in caplog.text
    assert "top_k=60" in ranking.provenance["settings"]


def test_provenance_names_encoder_settings_weights_and_data(probe: Data, cache: Cache) -> None:
    model = Looker().eval()
    record = igd.clip_dissect(model, probe, "layer", encoder=Colours(), cache=cache).provenance
    assert (record["method"], record["encoder"]) == ("CD-IR", "colours")
    assert record["settings"] == "similarity=soft-wpmi, top_k=100, templates={}"
    assert record["class names"] == "red|green|blue"
    assert (record["data"], record["images"]) == (probe.fingerprint, "150")


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"class_names": ("red", "blue")}, DataError, "3 logits but there are 2 class names"),
        ({"class_names": ("red", " ", "blue")}, DataError, "name of class 1 is empty"),
        ({"class_names": ("red", "blue", "red")}, DataError, "'red' is there twice"),
        ({"similarity": "l2"}, SettingError, "'l2'; expected one of: soft-wpmi"),
        ({"similarity": "cosine", "top_k": 5}, SettingError, "cosine has none"),
        ({"top_k": 0}, SettingError, "top_k = 0; expected at least 1"),
        ({"templates": ("a photo",)}, SettingError, "'a photo' needs one {}"),
        ({"templates": ("{} {x}",)}, SettingError, "needs one {}"),
        ({"templates": ()}, SettingError, "There is no template"),
        ({"layer": "lair"}, LayerNotFoundError, "Did you mean layer"),
        ({"encoder": "clip"}, SettingError, "Unknown encoder 'clip'"),
        ({"encoder": "embedded:nowhere"}, ModelError, "nowhere/encoder.safetensors is missing"),
        ({"encoder": "embedded"}, DataError, "takes images of 3 x 32 x 32, not of 3 x 4 x 4"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_bad_input_is_refused_before_anything_is_cached(
    settings: dict[str, object], error: type[Exception], says: str, probe: Data, cache: Cache
) -> None:
    arguments = {"layer": "layer", "encoder": Colours(), "cache": cache, **settings}
    with pytest.raises(error, match=says):
        igd.clip_dissect(Looker().eval(), probe, **arguments)  # type: ignore[arg-type]
    assert not cache.folder.exists()


def test_names_that_are_mere_numbers_are_told_of(
    probe: Data, cache: Cache, caplog: pytest.LogCaptureFixture
) -> None:
    numbered = Data(probe.images, probe.labels)
    igd.clip_dissect(Looker().eval(), numbered, "layer", encoder=Colours(), cache=cache)
    assert "mere numbers" in caplog.text
