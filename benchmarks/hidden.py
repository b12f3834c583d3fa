"""LO-IR at a hidden layer, where every neuron needs a run of what comes after."""

from benchmarks.clock import ratios
from benchmarks.passes import probe, rerun, spread_over, unseen
from benchmarks.row import AtLeast, Row
from igdefense import layers, leave_one_out, load_model

LAYER = "layer3"


def hidden(images: int = 200, rounds: int = 7, sample: int = 8) -> list[Row]:
    """`sample` neurons are rerun; the others are taken to cost the same."""
    model, data = load_model("embedded"), probe(images)
    neurons = next(one.neurons for one in layers(model, data.images[:1]) if one.name == LAYER)
    some = spread_over(neurons, sample)
    gain = ratios(
        lambda: rerun(model, data, LAYER, some),
        lambda: leave_one_out(model, unseen(data), LAYER, progress=False),
        rounds=rounds,
    )
    return [
        Row.of(
            f"LO-IR, hidden layer ({LAYER}), {len(data)} images: speed-up",
            f"rerunning {neurons} neurons (from {len(some)})",
            [one * neurons / len(some) for one in gain],
            AtLeast(4),
        )
    ]
