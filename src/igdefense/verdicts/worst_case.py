"""The worst case over the attacks of a run."""

from collections.abc import Sequence

import torch

from igdefense.verdicts.accuracies import Accuracies
from igdefense.verdicts.verdict import Verdict, right_mostly, selecting


def worst_case(clean: Verdict, verdicts: Sequence[Verdict]) -> Accuracies:
    """IW-WC, and what fresh draws say of the attack that is worst for each image.

    On the judging draw: right when clean and under every attack. Expected and majority follow
    Croce et al. (arXiv:2202.13711): for each image the attack, or none, that is right least often
    on the first half of the fresh draws is judged on the second half; of equals the one that is
    worse for all images is taken. Any-of: right on all fresh draws under every attack.

    In a cascade only the attacks that an image met can be chosen for it. An image leaves when the
    last one was wrong on the judging draw and all that select, so none could have a lower rate
    there; for any-of an image that fell counts as broken.
    """
    candidates = [*verdicts, clean]
    robust = torch.stack([verdict.robust for verdict in candidates]).all(0)
    fresh = torch.stack([verdict.fresh for verdict in candidates])  # attacks, images, draws
    if fresh.shape[2] == 0:
        return Accuracies.of_one_draw(robust)
    tested = torch.stack([verdict.tested for verdict in candidates])
    half = selecting(fresh.shape[2])
    rates = fresh[:, :, :half].double().mean(2).masked_fill(~tested, 2.0)
    overall = (rates * tested).sum(1) / tested.sum(1).clamp(min=1)
    order = overall.argsort(stable=True)
    chosen = order[torch.from_numpy(rates[order].numpy().argmin(0))]  # numpy: the first of equals
    reported = fresh[chosen, torch.arange(len(robust)), half:]
    every = (fresh | ~tested.unsqueeze(2)).all(2).all(0) & (robust | tested.all(0))
    return Accuracies(robust, reported, right_mostly(reported), every)
