"""The plots of the analysis: activation shift, loss surfaces, overlap of rankings."""

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
import torch
from torch import Tensor

from igdefense.analysis.activation_shift import GROUPS, ActivationShift, Definition
from igdefense.analysis.loss_surface import LossSurface
from igdefense.rankings.compare import Comparison
from igdefense.report.figure import (
    BLUE,
    COLOURS,
    DASHES,
    GREY,
    ORANGE,
    SKY,
    SYMBOLS,
    YELLOW,
    Figure,
    Row,
    blank,
    shown,
)

SERIES: tuple[tuple[Definition, bool, str], ...] = (
    ("paper", True, BLUE),
    ("released", True, SKY),
    ("paper", False, ORANGE),
    ("released", False, YELLOW),
)


def shift_figure(name: str, shift: ActivationShift, attack: str) -> Figure:
    """Bars for each group of neurons: two definitions, successful and unsuccessful attacks."""
    plot = blank("important neurons of", "change of activation", barmode="group")
    rows: list[Row] = []
    for definition, successful, colour in SERIES:
        changes = shift.of(definition, successful)
        found = [g for g in GROUPS if g in changes and not math.isnan(changes[g].percent)]
        outcome = "successful" if successful else "unsuccessful"
        if found:
            chosen = [changes[g] for g in found]
            errors = {
                "type": "data",
                "symmetric": False,
                "array": [c.interval[1] - c.percent for c in chosen],
                "arrayminus": [c.percent - c.interval[0] for c in chosen],
                "thickness": 1.5,
                "width": 3,
                "color": GREY,
            }
            plot.add_trace(
                go.Bar(
                    x=found,
                    y=[c.percent for c in chosen],
                    name=f"{outcome}, {definition} (n = {chosen[0].images})",
                    marker={"color": colour},
                    error_y=errors,
                    hovertemplate="%{x}: %{y:+.1f} %",
                )
            )
        for c in changes.values():
            rows.append((outcome, definition, c.group, c.images, c.percent, *c.interval))
    plot.update_yaxes(ticksuffix=" %", zeroline=True)
    plot.update_xaxes(categoryorder="array", categoryarray=list(GROUPS))
    return Figure(
        f"shift-{_slug(name)}",
        f"Activation shift: {name}",
        f"Base model at {shift.layer}, attacked by {attack}; a class's neurons are its top "
        f"{shift.keep} of {shift.neurons} by {shift.ranking}, {shift.unimportant} are in none. "
        "Paper: change of the mean activation. Released: mean of each image's own change, images "
        "right when clean only. Whiskers: 95 %, bootstrap over images.",
        plot,
        ("attack", "definition", "neurons of", "n", "change %", "low %", "high %"),
        tuple(rows),
        420,
    )


def surface_figures(surfaces: Mapping[str, LossSurface]) -> list[Figure]:
    """For each model, a surface to turn and the same from above, on one scale of colours."""
    low = min(float(s.mean.min()) for s in surfaces.values())
    high = max(float(s.mean.max()) for s in surfaces.values())
    figures = []
    for name, surface in surfaces.items():
        ticks = [255 * a for a in surface.steps.tolist()]
        heights = surface.mean.tolist()
        rows: list[Row] = [
            (a, b, heights[i][j]) for i, a in enumerate(ticks) for j, b in enumerate(ticks)
        ]
        head = ("along gradient /255", "across /255", "mean cross-entropy")
        scale = {"cmin": low, "cmax": high, "colorscale": "Cividis"}
        solid = blank("", "", legend=False)
        solid.add_trace(
            go.Surface(
                x=ticks,
                y=ticks,
                z=heights,
                colorbar={"title": {"text": "loss"}, "thickness": 14},
                hovertemplate="along %{y:.1f}/255, across %{x:.1f}/255: %{z:.3f}",
                **scale,
            )
        )
        solid.update_layout(
            margin={"l": 0, "r": 0, "t": 8, "b": 8},
            scene={
                "xaxis": {"title": {"text": "across, /255"}, "nticks": 5},
                "yaxis": {"title": {"text": "along, /255"}, "nticks": 5},
                "zaxis": {"title": {"text": "loss"}, "range": [low, high], "nticks": 4},
                "camera": {
                    "eye": {"x": -1.6, "y": -1.75, "z": 1.05},
                    "center": {"x": 0, "y": 0, "z": -0.12},
                },
            },
        )
        flat = blank("across the gradient, /255", "along the gradient, /255", legend=False)
        flat.add_trace(
            go.Heatmap(
                x=ticks,
                y=ticks,
                z=heights,
                zmin=low,
                zmax=high,
                colorscale="Cividis",
                colorbar={"title": {"text": "loss"}, "thickness": 14},
                hovertemplate="along %{y:.1f}/255, across %{x:.1f}/255: %{z:.3f}",
            )
        )
        about = (
            f"Mean cross-entropy of {len(surface.losses)} images over a plane through the whole "
            f"eps-ball ({255 * surface.eps:g}/255): along the sign of the model's own gradient "
            f"and across it. The plane holds {surface.missed:.3f} more loss than that line does."
        )
        slug = _slug(name)
        common = (head, tuple(rows))
        figures.append(
            Figure(f"surface-{slug}", f"Loss surface: {name}", about, solid, *common, 420)
        )
        figures.append(Figure(f"flat-{slug}", f"From above: {name}", about, flat, *common, 420))
    return figures


def class_overlap_figure(name: str, masks: Tensor, keep: int, class_names: Sequence[str]) -> Figure:
    """How many of their top neurons every two classes share."""
    shares = (masks.double() @ masks.double().T / keep).tolist()
    labels = [shown(label) for label in class_names]
    plot = blank("", "", legend=False)
    plot.add_trace(
        go.Heatmap(
            x=labels,
            y=labels,
            z=shares,
            zmin=0,
            zmax=1,
            colorscale="Cividis",
            colorbar={"title": {"text": "shared"}, "thickness": 14},
            hovertemplate="%{x} and %{y}: %{z:.2f}",
        )
    )
    plot.update_yaxes(autorange="reversed")
    plot.update_xaxes(tickangle=-45)
    rows: tuple[Row, ...] = tuple(
        (a, b, shares[i][j]) for i, a in enumerate(class_names) for j, b in enumerate(class_names)
    )
    return Figure(
        f"class-overlap-{_slug(name)}",
        f"Neurons that classes share: {name}",
        f"The share of two classes' top {keep} neurons that is the same; two random sets of "
        f"{masks.shape[1]} neurons would share {keep / masks.shape[1]:.2f}.",
        plot,
        ("class", "other class", "shared"),
        rows,
        460,
    )


def ranking_overlap_figure(comparison: Comparison) -> Figure:
    """How much of a class's top k every two rankings share, for several k."""
    plot = blank("k", "shared share of the top k")
    rows: list[Row] = []
    ks = list(comparison.ks)
    for i, pair in enumerate(comparison.pairs):
        means = comparison.overlap[pair].mean(1).tolist()
        name = comparison.pair_name(pair)
        plot.add_trace(
            go.Scatter(
                x=ks,
                y=means,
                name=shown(name),
                mode="lines+markers",
                line={"color": COLOURS[i % 6], "dash": DASHES[i % 6], "width": 2},
                marker={"symbol": SYMBOLS[i % 6], "size": 8},
                hovertemplate="k = %{x}: %{y:.2f}",
            )
        )
        correlation = float(torch.nanmean(comparison.correlation[pair]))
        rows += [(name, k, mean, correlation) for k, mean in zip(ks, means, strict=True)]
    plot.add_trace(
        go.Scatter(
            x=ks,
            y=comparison.chance,
            name="chance",
            mode="lines",
            line={"color": GREY, "dash": "dot", "width": 2},
            hovertemplate="chance at k = %{x}: %{y:.2f}",
        )
    )
    plot.update_xaxes(type="log", tickvals=ks)
    plot.update_yaxes(range=[0, 1.02])
    return Figure(
        "ranking-overlap",
        "Do the rankings agree?",
        f"The share of a class's top k of {comparison.neurons} neurons that two rankings both "
        "name, mean over the classes; chance is k / neurons.",
        plot,
        ("rankings", "k", "shared", "Spearman"),
        tuple(rows),
    )


def _slug(name: str) -> str:
    kept = "".join(c if c.isascii() and c.isalnum() else "-" for c in name.lower())
    return "-".join(part for part in kept.split("-") if part) or "run"
