"""Models by name: every one that ships fits its card."""

import pytest
import torch

from igdefense.errors import ModelError
from igdefense.models import card_of, load_model, weights_fingerprint, zoo


@pytest.mark.parametrize("name", zoo())
def test_a_shipped_model_is_the_one_on_its_card(name: str) -> None:
    card, model = card_of(name), load_model(f"zoo:{name}")
    assert weights_fingerprint(model) == card["fingerprint"]
    assert all(not part.training for part in model.modules())
    assert {value.dtype for value in model.parameters()} == {torch.float32}
    assert 0.55 <= card["test"]["clean"] <= 1 or card["data"].startswith("cifar100")
    assert card["test"]["pgd50"] < card["test"]["clean"]
    assert card["command"].startswith(f"igd train {card['model'].rpartition(' ')[2]} ")


def test_embedded_is_the_first_of_the_zoo_and_a_plain_name_will_do() -> None:
    prints = [weights_fingerprint(load_model(spec)) for spec in ("embedded", zoo()[0])]
    assert prints[0] == prints[1]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("zoo:resnet18-w16-fad", "The zoo has no model 'resnet18-w16-fad'. Did you mean resnet18-"),
        ("zoo:xyz", "The zoo has no model 'xyz'. `igd models` lists them."),
        ("resnet18-w16-fad", "Did you mean resnet18-w16-fat?"),
    ],
)
def test_an_unknown_name_offers_the_nearest(spec: str, says: str) -> None:
    with pytest.raises(ModelError) as error:
        load_model(spec)
    assert says in str(error.value)
