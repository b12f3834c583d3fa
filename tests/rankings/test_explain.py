"""What excites a neuron and which classes it serves, where both are known."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import igdefense as igd
from borders import edges
from igdefense.data.data import Data
from igdefense.errors import DataError, SettingError
from igdefense.rankings.explain import most_common
from igdefense.rankings.maps import averages
from igdefense.rankings.ranking import Ranking
from igdefense.report.pictures import explanation_picture
from nets import make_net


class Looker(nn.Module):
    """Neuron c of `layer` sees channel c."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        return self.layer(images).mean((2, 3)) - 1


RANKING = Ranking("layer", torch.tensor([[3.0, 2, 1], [1, 3, 2], [2, 1, 3]]), {"method": "hand"})


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_the_images_are_those_with_the_highest_mean_activation(data: Data, batch_size: int) -> None:
    found = igd.explain(
        RANKING, Looker().eval(), data, "dog", top=3, images=4, batch_size=batch_size
    )
    assert found.neurons == (1, 2, 0)
    assert found.scores.tolist() == [3, 2, 1]
    best = data.images[:].mean((2, 3))[:, [1, 2, 0]].T.sort(dim=1, descending=True)
    assert torch.equal(found.images, best.indices[:, :4])
    assert_close(found.activations, best.values[:, :4])


def test_a_neuron_serves_the_classes_that_rank_it_high(data: Data) -> None:
    found = igd.explain(RANKING, Looker().eval(), data, 0, top=2, images=1, keep=2)
    assert found.places.tolist() == [[0, 2, 1], [1, 0, 2]]
    assert found.serves(0) == ["cat", "bird"]
    assert found.serves(1) == ["cat", "dog"]
    rows = [line.split() for line in found.table(data.labels).splitlines()]
    assert rows[2][0] == "0"
    assert rows[2][-5:] == ["2", "of", "3:", "cat,", "bird"]


def test_equally_exciting_images_come_in_their_order() -> None:
    data = Data(torch.full((9, 3, 8, 8), 0.5), torch.arange(9) % 3)
    found = igd.explain(RANKING, Looker().eval(), data, "1", top=1, images=5, batch_size=2)
    assert found.images.tolist() == [[0, 1, 2, 3, 4]]


def test_maps_and_tokens_are_averaged() -> None:
    assert averages(torch.ones(2, 5)).shape == (2, 5)
    assert averages(torch.arange(6.0).reshape(1, 3, 2)).tolist() == [[2, 3]]
    assert averages(torch.arange(8.0).reshape(1, 2, 2, 2)).tolist() == [[1.5, 5.5]]


def test_names_are_counted_the_most_frequent_first() -> None:
    assert most_common(["dog", "cat", "cat"]) == "2 cat, 1 dog"


def test_a_saved_explanation_holds_every_number(data: Data, tmp_path: Path) -> None:
    found = igd.explain(RANKING, Looker().eval(), data, "cat", top=2, images=3)
    found.save(tmp_path / "e.json")
    record = json.loads((tmp_path / "e.json").read_text())
    assert (record["class"], record["layer"]) == ("cat", "layer")
    assert [row["neuron"] for row in record["neurons"]] == [0, 1]
    assert record["neurons"][0]["images"] == found.images[0].tolist()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"label": "cow"}, "There is no class 'cow'; expected one of: cat, dog, bird"),
        ({"label": 3}, "There is no class 3"),
        ({"top": 4}, "top = 4 is outside 1 to 3"),
        ({"keep": 0}, "keep = 0 is outside 1 to 3"),
        ({"images": 10}, "images = 10 is outside 1 to 9"),
    ],
)
def test_a_bad_setting_is_refused(settings: dict[str, int | str], says: str, data: Data) -> None:
    with pytest.raises(SettingError, match=says):
        igd.explain(RANKING, Looker().eval(), data, **{"label": "cat", "top": 1, **settings})  # type: ignore[arg-type]


def test_data_of_other_classes_is_refused(data: Data) -> None:
    few = Ranking("last", torch.zeros(2, 10))
    with pytest.raises(DataError, match="3 logits, the data 3 classes and the ranking 2"):
        igd.explain(few, make_net("cnn"), data, "cat")


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ["a", "a class with quite a long name, " * 5])
def test_nothing_in_the_picture_touches_its_edge(name: str, channels: int) -> None:
    names = [f"{name}{i}" for i in range(3)]
    grey = torch.linspace(0, 1, 9 * 64).reshape(9, 1, 8, 8)
    data = Data(grey.expand(-1, 3, -1, -1), torch.arange(9) % 3, names)
    found = igd.explain(RANKING, Looker().eval(), data, 2, top=3, images=2, keep=3)
    shown = Data(data.images[:][:, :channels], data.labels, names)
    picture = explanation_picture(found, shown)
    assert edges(picture.tobytes(), picture.size) == {255}
