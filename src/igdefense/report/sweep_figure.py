"""The plot of a sweep: accuracies against one setting, with 95 % intervals."""

import plotly.graph_objects as go

from igdefense.paper.outcome import Outcome
from igdefense.paper.sweep import Sweep, sweeps_of
from igdefense.report.figure import (
    COLOURS,
    DASHES,
    GREY,
    PERCENT,
    SYMBOLS,
    Figure,
    Row,
    blank,
    errors,
    numbers,
    shown,
)

APART = 0.02  # between the points of two series, so that whiskers can be told apart


def sweep_figures(outcome: Outcome) -> list[Figure]:
    """One for each setting that the outcome varies."""
    return [_figure(outcome, sweep) for sweep in sweeps_of(outcome)]


def _figure(outcome: Outcome, sweep: Sweep) -> Figure:
    plot = blank(sweep.axis, "accuracy")
    values = [shown(value) for value in sweep.values]
    rows: list[Row] = []
    for i, (name, shares) in enumerate(sweep.series.items()):
        away = (1 + APART) ** (i - (len(sweep.series) - 1) / 2)
        places = [number * away for number in sweep.numbers] if sweep.numbers else values
        colour = GREY if name.startswith("none") else COLOURS[i % (len(COLOURS) - 1)]
        plot.add_trace(
            go.Scatter(
                x=places,
                y=[100 * share.value for share in shares],
                text=values,
                name=shown(name),
                mode="lines+markers",
                line={"color": colour, "dash": DASHES[i % len(DASHES)], "width": 2},
                marker={"symbol": SYMBOLS[i % len(SYMBOLS)], "size": 8},
                error_y=errors(shares) | {"color": colour, "thickness": 1},
                hovertemplate="%{text}: %{y:.1f} %",
            )
        )
        rows += [
            (name, value, *numbers(share))
            for value, share in zip(sweep.values, shares, strict=True)
        ]
    if sweep.numbers:
        ticks = [value.removesuffix("/255") for value in sweep.values]
        plot.update_xaxes(type="log", tickvals=list(sweep.numbers), ticktext=ticks)
    plot.update_yaxes(**PERCENT)
    head = ("series", sweep.setting, "right", "n", "accuracy %", "low %", "high %")
    return Figure(
        f"sweep-{sweep.setting.replace('_', '-')}",
        f"Sensitivity to {TITLES[sweep.setting]}",
        f"From `igd reproduce {outcome.name}`: {outcome.about}. Whiskers are 95 % Wilson intervals"
        + (", and series are drawn a little apart" if sweep.numbers else "")
        + ". "
        + " ".join(outcome.notes),
        plot,
        head,
        tuple(rows),
        420,
    )


TITLES = {
    "keep": "the number of kept neurons",
    "layer": "the masked layer",
    "sigma": "the noise",
    "samples": "the number of noisy copies",
    "temperature": "the temperature",
    "per_class": "the size of the probe set",
    "steps": "the attack's steps",
    "eps": "the attack's budget",
}
