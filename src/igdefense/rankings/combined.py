"""Rankings made of rankings: by size alone, or by what two of them say together."""

from torch import Tensor

from igdefense.errors import RankingError, SettingError
from igdefense.rankings.ranking import Ranking

WAYS = ("intersection", "union", "sum")


def absolute(ranking: Ranking) -> Ranking:
    """The neurons by the size of their scores, whatever the sign."""
    method = f"absolute {ranking.provenance.get('method', 'ranking')}"
    return Ranking(ranking.layer, ranking.scores.abs(), {**ranking.provenance, "method": method})


def combined(one: Ranking, other: Ranking, way: str) -> Ranking:
    """Both rankings of a layer in one.

    `intersection` orders the neurons by the worse of their two places, `union` by the better: the
    k neurons kept are the intersection, or the union, of both tops, grown until it has k. `sum`
    adds the scores, each class's scaled to mean 0 and standard deviation 1.
    """
    if way not in WAYS:
        raise SettingError(f"There is no {way!r} of rankings; expected one of {', '.join(WAYS)}.")
    if one.layer != other.layer or one.scores.shape != other.scores.shape:
        raise RankingError(f"{one!r} and {other!r} do not rank the same neurons of one layer.")
    if way == "sum":
        scores = _standard(one.scores) + _standard(other.scores.to(one.scores))
    else:
        a, b = _places(one), _places(other)
        first = a.maximum(b) if way == "intersection" else a.minimum(b)
        # Of two neurons alike in this the one that both together place higher comes first.
        scores = -(first + (a + b) / (2 * one.neurons + 1)).to(one.scores)
    methods = " and ".join(ranking.provenance.get("method", "ranking") for ranking in (one, other))
    return Ranking(one.layer, scores, {**one.provenance, "method": f"{way} of {methods}"})


def _places(ranking: Ranking) -> Tensor:
    """0 for each class's most important neuron, 1 for the next."""
    return ranking.order.argsort(dim=1).double()


def _standard(scores: Tensor) -> Tensor:
    centred = scores - scores.mean(1, keepdim=True)
    return centred / centred.square().mean(1, keepdim=True).sqrt().clamp(min=1e-12)
