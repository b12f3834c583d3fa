"""The plot of a sweep: accuracies against one setting, with 95 % intervals."""

import plotly.graph_objects as go

from igdefense.paper.outcome import Outcome
from igdefense.paper.sweep import BASE, Sweep, sweeps_of
from igdefense.report.figure import (
    COLOURS,
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

# Between the points of two series, so that whiskers can be told apart.
RATIO, APART = 1.03, 0.05


def sweep_figures(outcome: Outcome) -> list[Figure]:
    """One for each setting that the outcome varies."""
    return [_figure(outcome, sweep) for sweep in sweeps_of(outcome)]


def _figure(outcome: Outcome, sweep: Sweep) -> Figure:
    plot = blank(sweep.axis, "accuracy")
    values = [shown(value) for value in sweep.values]
    places = list(sweep.numbers or range(len(values)))
    methods = list(dict.fromkeys(_method(name) for name in sweep.series))
    rows: list[Row] = []
    for i, (name, shares) in enumerate(sweep.series.items()):
        away = i - (len(sweep.series) - 1) / 2
        colour, symbol = _look(methods.index(_method(name)), _method(name))
        clean = name.endswith("clean")
        plot.add_trace(
            go.Scatter(
                x=[
                    at * (1 + APART) ** away if sweep.numbers else at + APART * away
                    for at in places
                ],
                y=[100 * share.value for share in shares],
                text=values,
                name=shown(name),
                mode="lines+markers",
                line={"color": colour, "dash": "dot" if clean else "solid", "width": 2},
                marker={"symbol": f"{symbol}-open" if clean else symbol, "size": 8},
                error_y=errors(shares) | {"color": colour, "thickness": 1},
                hovertemplate="%{text}: %{y:.1f} %",
            )
        )
        rows += [
            (name, value, *numbers(share))
            for value, share in zip(sweep.values, shares, strict=True)
        ]
    ticks = [value.removesuffix("/255") for value in values]
    kind = "log" if sweep.numbers else "linear"
    plot.update_xaxes(type=kind, tickvals=places, ticktext=ticks, showgrid=False, zeroline=False)
    plot.update_yaxes(**PERCENT)
    head = ("series", sweep.setting, "right", "n", "accuracy %", "low %", "high %")
    return Figure(
        f"sweep-{sweep.setting.replace('_', '-')}",
        f"Sensitivity to {TITLES[sweep.setting]}",
        f"From `igd reproduce {outcome.name}`: {outcome.about}. Whiskers are 95 % Wilson "
        f"intervals; series stand a little apart. {' '.join(outcome.notes)}",
        plot,
        head,
        tuple(rows),
        420,
    )


def _method(series: str) -> str:
    """`LO-IR` of `LO-IR clean` and of `LO-IR AA`."""
    return series.removesuffix(" clean").removesuffix(" AA")


def _look(i: int, method: str) -> tuple[str, str]:
    """Colour and symbol; grey for the base model."""
    return GREY if method == BASE else COLOURS[i % (len(COLOURS) - 1)], SYMBOLS[i % len(SYMBOLS)]


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
