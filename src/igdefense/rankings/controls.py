"""Rankings that should not help: the controls of every comparison."""

import torch

from igdefense.randomness import generator
from igdefense.rankings.ranking import Ranking


def shuffled(ranking: Ranking, seed: int = 0) -> Ranking:
    """Random scores for the same layer and model: each class keeps neurons drawn at random."""
    scores = torch.rand(ranking.scores.shape, generator=generator(seed, "random ranking"))
    provenance = {**ranking.provenance, "method": "random", "settings": f"seed={seed}"}
    return Ranking(ranking.layer, scores, provenance)


def inverted(ranking: Ranking) -> Ranking:
    """The least important neurons first."""
    method = f"inverted {ranking.provenance.get('method', 'ranking')}"
    return Ranking(ranking.layer, -ranking.scores, {**ranking.provenance, "method": method})
