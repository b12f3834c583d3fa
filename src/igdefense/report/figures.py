"""The plots of runs: survival, classes, cost; numbers in %, with 95 % intervals."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from igdefense.analysis.class_disparity import ClassDisparity
from igdefense.analysis.cost import Cost
from igdefense.analysis.survival import Survival
from igdefense.defenses.tune import Tuning
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
from igdefense.verdicts.statistics import Share

TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)


def survival_figure(survivals: Mapping[str, Survival]) -> Figure:
    """Steps down as each attack joins."""
    plot = blank("attacks, in the order they join", "images still right")
    rows: list[Row] = []
    for i, (name, survival) in enumerate(survivals.items()):
        values = [100 * share.value for share in survival.standing]
        labels = [shown(attack) for attack in survival.attacks]
        plot.add_trace(
            go.Scatter(
                x=labels,
                y=values,
                name=shown(name),
                mode="lines+markers",
                line={"shape": "hv", "color": _colour(i), "dash": _of(DASHES, i), "width": 2},
                marker={"symbol": _of(SYMBOLS, i), "size": 8},
                hovertemplate="%{x}: %{y:.1f} %",
            )
        )
        for attack, share, broken in zip(
            survival.attacks, survival.standing, survival.newly_broken, strict=True
        ):
            rows.append((name, attack, *numbers(share), broken))
    plot.update_yaxes(**PERCENT)
    plot.update_xaxes(tickangle=-45)
    head = ("run", "attack", "right", "n", "accuracy %", "low %", "high %", "newly broken")
    return Figure(
        "survival",
        "Which attack broke what",
        "Accuracy as each attack joins: an image counts while it is right under all attacks so "
        "far. The last step is the worst case, IW-WC; a flat step broke nothing new.",
        plot,
        head,
        tuple(rows),
        460,
    )


def class_figure(disparities: Mapping[str, ClassDisparity]) -> Figure:
    """Worst-case accuracy of each class as bars, clean accuracy as marks above them."""
    plot = blank("class", "accuracy", barmode="group", bargap=0.25, bargroupgap=0.06)
    rows: list[Row] = []
    for i, (name, disparity) in enumerate(disparities.items()):
        labels = [shown(label) for label in disparity.class_names]
        plot.add_trace(
            go.Bar(
                x=labels,
                y=[100 * share.value for share in disparity.robust],
                name=shown(name),
                marker={"color": _colour(i)},
                error_y=errors(disparity.robust),
                hovertemplate="%{x}, IW-WC: %{y:.1f} %",
            )
        )
        for label, clean, robust in zip(
            disparity.class_names, disparity.clean, disparity.robust, strict=True
        ):
            rows.append((name, label, *numbers(clean)[2:], *numbers(robust)[2:], robust.total))
    first = next(iter(disparities.values()))
    plot.add_trace(
        go.Scatter(
            x=[shown(label) for label in first.class_names],
            y=[100 * share.value for share in first.clean],
            name=f"clean, {shown(next(iter(disparities)))}",
            mode="markers",
            marker={"symbol": "line-ew-open", "size": 16, "color": GREY, "line": {"width": 3}},
            hovertemplate="%{x}, clean: %{y:.1f} %",
        )
    )
    plot.update_yaxes(**PERCENT)
    worst = ", ".join(
        f"{name}: best {d.best}, worst {d.worst}, gap {100 * d.gap:.0f} points"
        for name, d in disparities.items()
    )
    clean_head = ("run", "class", "clean %", "clean low %", "clean high %")
    return Figure(
        "classes",
        "Class disparity",
        f"Worst-case accuracy (IW-WC) class by class; whiskers are 95 % Wilson intervals. {worst}.",
        plot,
        (*clean_head, "IW-WC %", "IW-WC low %", "IW-WC high %", "n"),
        tuple(rows),
    )


def keep_figure(tunings: Mapping[str, tuple[Tuning, int]]) -> Figure:
    """Clean accuracy against the number of kept neurons, for each ranking and its own choice."""
    plot = blank("neurons kept for each class (k)", "clean accuracy")
    rows: list[Row] = []
    for i, (name, (tuning, keep)) in enumerate(tunings.items()):
        points = sorted(tuning.accuracy.items())
        plot.add_trace(
            go.Scatter(
                x=[k for k, _ in points],
                y=[100 * accuracy for _, accuracy in points],
                name=shown(name),
                mode="lines",
                line={"color": _colour(i), "dash": _of(DASHES, i), "width": 2},
                hovertemplate="k = %{x}: %{y:.1f} %",
            )
        )
        if keep in tuning.accuracy:
            plot.add_trace(
                go.Scatter(
                    x=[keep],
                    y=[100 * tuning.accuracy[keep]],
                    name=f"{shown(name)} as run, k = {keep}",
                    mode="markers",
                    marker={
                        "symbol": f"{_of(SYMBOLS, i)}-open",
                        "size": 11 + 5 * i,  # one around the other where they meet
                        "color": _colour(i),
                        "line": {"width": 2.5},
                    },
                    hovertemplate="k = %{x}: %{y:.1f} %",
                )
            )
        rows += [
            (name, k, 100 * accuracy, 100 * tuning.base, tuning.images) for k, accuracy in points
        ]
    tuning = next(iter(tunings.values()))[0]
    most = max(max(t.accuracy) for t, _ in tunings.values())
    plot.add_trace(
        go.Scatter(
            x=[1, most],
            y=[100 * tuning.base] * 2,
            name="base model",
            mode="lines",
            line={"color": GREY, "width": 2, "dash": "dot"},
            hovertemplate="base model: %{y:.1f} %",
        )
    )
    plot.update_xaxes(type="log", tickvals=[k for k in TICKS if k <= most])
    plot.update_yaxes(**PERCENT)
    return Figure(
        "keep",
        "Sensitivity to k",
        f"Clean accuracy on {tuning.images} images against the number of neurons kept for each "
        "class, on a logarithmic axis; all neurons kept is the base model.",
        plot,
        ("ranking", "keep", "clean %", "base clean %", "n"),
        tuple(rows),
    )


def cost_figure(costs: Mapping[str, Cost], robust: Mapping[str, Share]) -> Figure:
    """Worst-case accuracy against inference time."""
    plot = blank("time of a prediction, base model = 1", "worst-case accuracy (IW-WC)")
    rows: list[Row] = []
    for i, (name, cost) in enumerate(costs.items()):
        share, (low, high) = robust[name], cost.spread
        spread = {"array": [high - cost.ratio], "arrayminus": [cost.ratio - low]}
        plot.add_trace(
            go.Scatter(
                x=[cost.ratio],
                y=[100 * share.value],
                name=shown(name),
                mode="markers",
                marker={"symbol": _of(SYMBOLS, i), "size": 13, "color": _colour(i)},
                error_y=errors([share]),
                error_x=errors([share]) | spread,
                hovertemplate="%{x:.2f} passes: %{y:.1f} %",
            )
        )
        passes = cost.passes.forward
        rows.append((name, round(cost.ratio, 3), low, high, passes, *numbers(share)))
    plot.update_xaxes(range=[0, 1.15 * max(cost.spread[1] for cost in costs.values())])
    plot.update_yaxes(**PERCENT)
    return Figure(
        "cost",
        "Cost against robustness",
        "Time of a prediction as a multiple of the base model's, measured in turns where this page "
        "was made: median, lowest and highest of 5 rounds of one small batch. `igd cost` takes "
        "more care.",
        plot,
        ("run", "time", "lowest", "highest", "passes", "right", "n", "IW-WC %", "low %", "high %"),
        tuple(rows),
    )


def _colour(i: int) -> str:
    return _of(COLOURS, i)


def _of(values: Sequence[str], i: int) -> str:
    return values[i % len(values)]
