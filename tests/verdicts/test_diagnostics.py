import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from igdefense.data.data import Data
from igdefense.defenses.ig_defense import IGDefense, defend
from igdefense.defenses.smoothing import Smoothed
from igdefense.rankings.controls import shuffled
from igdefense.rankings.leave_one_out import leave_one_out
from igdefense.verdicts.diagnostics import GUESS, MASKED, WHOLE, diagnose, in_words
from igdefense.verdicts.store import image_ids


def defended(net: nn.Module, layer: str, data: Data, **settings: float) -> IGDefense:
    ranking = shuffled(leave_one_out(net, data, layer), 0)
    return defend(net, ranking, **({"keep": 3, "temperature": 0.5} | settings))  # type: ignore[arg-type]


def gradient(logits: Tensor, labels: Tensor, x: Tensor) -> Tensor:
    (found,) = torch.autograd.grad(F.cross_entropy(logits, labels, reduction="sum"), x)
    return found


def test_the_gradients_of_the_two_paths_add_up(
    net_and_layer: tuple[nn.Module, str], data: Data
) -> None:
    net, layer = net_and_layer
    defense = defended(net, layer, data, sigma=0.05)
    x, keys = data.images[:].clone().requires_grad_(), list(range(9))
    whole = gradient(defense(x, keys), data.labels, x)
    guess = gradient(defense.paths(x, keys)[0], data.labels, x)
    masked = gradient(defense.paths(x, keys)[1], data.labels, x)
    assert_close(guess + masked, whole, rtol=1e-3, atol=1e-6)
    assert masked.abs().max() > 0


def test_when_every_neuron_is_kept_nothing_flows_through_the_guess(
    cnn: nn.Module, data: Data
) -> None:
    defense = defended(cnn, "last", data, sigma=0.0, keep=10)
    ids = image_ids(data.images[:], data.labels)
    found = diagnose(defense, data.images[:], data.labels, ids, seed=0)
    assert found[GUESS]["median norm"] < 1e-5 * found[MASKED]["median norm"]
    assert found[WHOLE]["mean norm"] == pytest.approx(found[MASKED]["mean norm"])
    assert found["prediction is the pseudo-label"] == 1.0
    assert "pseudo-label on 100%" in in_words(found)[0]


def test_a_cold_guess_has_no_gradient_at_all(cnn: nn.Module, data: Data) -> None:
    defense = defended(cnn, "last", data, sigma=0.05, temperature=1e-5)
    ids = image_ids(data.images[:], data.labels)
    found = diagnose(defense, data.images[:], data.labels, ids, seed=0)
    assert found[GUESS]["zero"] == 1.0
    assert found[MASKED]["zero"] == 0.0


def test_a_defense_without_a_guess_has_one_gradient(cnn: nn.Module, data: Data) -> None:
    ids = image_ids(data.images[:], data.labels)
    found = diagnose(Smoothed(cnn), data.images[:], data.labels, ids, seed=0)
    assert found[WHOLE]["zero"] == 0.0
    assert GUESS not in found
    assert in_words(found) == []
