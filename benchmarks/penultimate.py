"""LO-IR at the penultimate layer: what it costs, and what reruns would."""

from benchmarks.clock import ratios
from benchmarks.passes import plain_pass, probe, rerun, spread_over, unseen
from benchmarks.row import AtLeast, AtMost, Row
from igdefense import layers, leave_one_out, load_model

LAYER = "layer4"


def penultimate(images: int = 2000, rounds: int = 7, sample: int = 8) -> list[Row]:
    """`sample` neurons are rerun; the others are taken to cost the same."""
    model, data = load_model("embedded"), probe(images)
    neurons = next(one.neurons for one in layers(model, data.images[:1]) if one.name == LAYER)
    some = spread_over(neurons, sample)

    def rank() -> None:
        leave_one_out(model, unseen(data), LAYER, progress=False)

    cost = ratios(rank, lambda: plain_pass(model, data), rounds=rounds)
    gain = ratios(lambda: rerun(model, data, LAYER, some), rank, rounds=(rounds + 1) // 2)
    what = f"LO-IR, penultimate layer ({LAYER}), {len(data)} images"
    return [
        Row.of(what, "one plain forward pass", cost, AtMost(1.15)),
        Row.of(
            f"{what}: speed-up",
            f"rerunning {neurons} neurons (from {len(some)})",
            [one * neurons / len(some) for one in gain],
            AtLeast(0.8 * neurons),
        ),
    ]
