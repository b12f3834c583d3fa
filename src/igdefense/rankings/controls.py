"""Rankings that should not help: the controls of every comparison."""

from collections.abc import Mapping

import torch
from torch import nn

from igdefense import __version__
from igdefense.layers import check_layer, neurons_of
from igdefense.models.check import check_model
from igdefense.models.fingerprint import weights_fingerprint
from igdefense.randomness import generator
from igdefense.rankings.ranking import Ranking
from igdefense.types import Images


def shuffled(ranking: Ranking, seed: int = 0) -> Ranking:
    """Random scores for the same layer and model: each class keeps neurons drawn at random."""
    return random_ranking(ranking.layer, ranking.classes, ranking.neurons, seed, ranking.provenance)


def random_for(model: nn.Module, images: Images, layer: str, seed: int = 0) -> Ranking:
    """Random scores for a layer, from one forward pass over a few images of the right size."""
    classes = check_model(model, images)
    activations, _ = check_layer(model, layer, images)
    provenance = {"model": weights_fingerprint(model), "version": __version__}
    return random_ranking(layer, classes, neurons_of(activations), seed, provenance)


def random_ranking(
    layer: str, classes: int, neurons: int, seed: int, provenance: Mapping[str, str]
) -> Ranking:
    """Random scores; they depend on the seed and the two numbers alone."""
    scores = torch.rand((classes, neurons), generator=generator(seed, "random ranking"))
    record = {**provenance, "method": "random", "settings": f"seed={seed}"}
    return Ranking(layer, scores, record)


def inverted(ranking: Ranking) -> Ranking:
    """The least important neurons first."""
    method = f"inverted {ranking.provenance.get('method', 'ranking')}"
    return Ranking(ranking.layer, -ranking.scores, {**ranking.provenance, "method": method})
