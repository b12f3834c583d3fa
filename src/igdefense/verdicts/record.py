"""Verdicts and accuracies as JSON: everything there is to know, image by image, draw by draw."""

from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from igdefense.verdicts.accuracies import Accuracies
from igdefense.verdicts.statistics import Mean, Share
from igdefense.verdicts.verdict import Verdict


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """Its outcomes; and its accuracies, where it was run on every image."""
    record: dict[str, Any] = {
        "robust": verdict.robust.int().tolist(),
        "tested": verdict.tested.int().tolist(),
    }
    if verdict.fresh.shape[1]:
        record["fresh draws"] = [_text(draw) for draw in verdict.fresh.T]
    return record | (accuracies_to_json(verdict.accuracies) if verdict.complete else {})


def verdict_from_json(name: str, record: dict[str, Any]) -> Verdict:
    """What `verdict_to_json` wrote; runs of the first format have the judging draw alone."""
    draws = [record["robust"], *([*map(int, text)] for text in record.get("fresh draws", []))]
    right = torch.tensor(draws, dtype=torch.bool).T
    return Verdict(name, right, torch.tensor(record.get("tested", [1] * len(right))).bool())


def accuracies_to_json(accuracies: Accuracies) -> dict[str, Any]:
    """Each accuracy with its interval."""
    record = share_to_json(accuracies.share)
    if accuracies.random:
        record |= {
            "expected": _mean(accuracies.expected),
            "majority": share_to_json(accuracies.majority),
            "any of": share_to_json(accuracies.any_of),
        }
    return record


def share_to_json(share: Share) -> dict[str, Any]:
    return {"right": share.count, "accuracy": share.value, "interval 95 %": list(share.interval)}


def _mean(mean: Mean) -> dict[str, Any]:
    return {"accuracy": mean.value, "std": mean.std, "interval 95 %": list(mean.interval)}


def _text(right: Bool[Tensor, " images"]) -> str:
    return "".join(map(str, right.int().tolist()))
