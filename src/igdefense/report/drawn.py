"""A plot of the page drawn once more by Matplotlib, for print."""

import html
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Sheet

from igdefense.report.figure import Figure

DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (8, 3))}
MARKS = {"circle": "o", "square": "s", "diamond": "D", "triangle-up": "^", "x": "X", "cross": "P"}
INK = "#555555"  # of whiskers
MARKS |= {"star": "*", "line-ew-open": "_"}


def print_figure(figure: Figure, path: Path, format: str) -> None:
    """Write the figure as pdf, png or svg."""
    traces, layout = figure.plot.data, figure.plot.layout
    solid = traces[0].type == "surface"
    sheet = Sheet(figsize=(5.5, 3.6), layout=None if solid else "constrained")
    FigureCanvasAgg(sheet)
    axes: Any = sheet.add_subplot(projection="3d" if solid else None)
    if solid:
        _solid(axes, traces[0], layout)
    else:
        _flat(axes, sheet, traces, layout)
    axes.set_title(_plain(figure.title), fontsize=10)
    sheet.savefig(path, format=format, dpi=300, metadata=_undated(format))


def _flat(axes: Axes, sheet: Any, traces: Any, layout: Any) -> None:
    axes.set_xlabel(_plain(layout.xaxis.title.text or ""), fontsize=9)
    axes.set_ylabel(
        _plain(layout.yaxis.title.text or "") + (layout.yaxis.ticksuffix or ""), fontsize=9
    )
    axes.tick_params(labelsize=8)
    categories = list(layout.xaxis.categoryarray or ()) or _categories(traces)
    places = {name: i for i, name in enumerate(categories)}
    bars = [trace for trace in traces if trace.type == "bar"]
    for trace in traces:
        if trace.type == "heatmap":
            _heatmap(axes, sheet, trace, layout)
            return
        x = [places.get(value, value) for value in trace.x] if places else list(trace.x)
        if trace.type == "bar":
            wide = 0.8 / len(bars)
            shift = (bars.index(trace) - (len(bars) - 1) / 2) * wide
            x = [value + shift for value in x]
            axes.bar(x, trace.y, wide, label=_plain(trace.name), color=trace.marker.color)
        else:
            _line(axes, x, trace)
        if trace.error_y.array is not None:
            whiskers = [list(trace.error_y.arrayminus), list(trace.error_y.array)]
            own = (
                trace.error_y.color if trace.type == "scatter" and trace.mode != "markers" else None
            )
            axes.errorbar(
                x, trace.y, yerr=whiskers, fmt="none", ecolor=own or INK, capsize=1.5, lw=0.8
            )
        if trace.type == "scatter" and trace.error_x.array is not None:
            whiskers = [list(trace.error_x.arrayminus), list(trace.error_x.array)]
            axes.errorbar(x, trace.y, xerr=whiskers, fmt="none", ecolor=INK, capsize=1.5)
    if places:
        names = [_plain(str(name)) for name in categories]
        axes.set_xticks(range(len(names)), names, rotation=45 if len(names) > 4 else 0)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right" if len(names) > 4 else "center")
    if layout.xaxis.type == "log":
        axes.set_xscale("log")
    if layout.xaxis.tickvals is not None:
        ticks = list(layout.xaxis.tickvals)
        axes.set_xticks(ticks, list(layout.xaxis.ticktext or [f"{k:g}" for k in ticks]))
        axes.minorticks_off()
    for axis, setter in ((layout.xaxis, axes.set_xlim), (layout.yaxis, axes.set_ylim)):
        if axis.range is not None:
            setter(*axis.range)
    axes.grid(axis="y", color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)
    longest = max(len(_plain(trace.name)) for trace in traces)
    across = max(1, min(4, len(traces), 100 // (longest + 8)))  # so many fit side by side
    sheet.legend(fontsize=7, frameon=False, loc="outside lower center", ncols=across)


def _line(axes: Axes, x: list[Any], trace: Any) -> None:
    lines, marks = "lines" in trace.mode, "markers" in trace.mode
    symbol = trace.marker.symbol or "circle"
    axes.plot(
        x,
        trace.y,
        label=_plain(trace.name),
        color=trace.line.color or trace.marker.color,
        linestyle=DASHES.get(trace.line.dash or "solid", "-") if lines else "none",
        marker=MARKS.get(symbol.removesuffix("-open"), MARKS.get(symbol, "o")) if marks else None,
        markerfacecolor="none" if symbol.endswith("-open") else None,
        markeredgewidth=2 if symbol == "line-ew-open" else None,
        markersize=12 if symbol == "line-ew-open" else 0.6 * (trace.marker.size or 8),
        drawstyle="steps-post" if trace.line.shape == "hv" else "default",
    )


def _heatmap(axes: Axes, sheet: Any, trace: Any, layout: Any) -> None:
    drawn = axes.pcolormesh(
        _edges(trace.x),
        _edges(trace.y),
        [list(row) for row in trace.z],
        cmap="cividis",
        vmin=trace.zmin,
        vmax=trace.zmax,
    )
    for names, setter in ((trace.x, axes.set_xticks), (trace.y, axes.set_yticks)):
        if isinstance(names[0], str):
            labels = [_plain(name) for name in names]
            setter([i + 0.5 for i in range(len(names))], labels, fontsize=7)
    if isinstance(trace.x[0], str):
        axes.tick_params(axis="x", rotation=90)
    if layout.yaxis.autorange == "reversed":
        axes.invert_yaxis()
    sheet.colorbar(drawn, ax=axes, label=trace.colorbar.title.text)


def _edges(places: Any) -> list[float]:
    """Of the cells around numbers that are equally far apart, or of one cell for each name."""
    if isinstance(places[0], str):
        return [float(i) for i in range(len(places) + 1)]
    half = (places[1] - places[0]) / 2
    return [places[0] - half, *(place + half for place in places)]


def _solid(axes: Any, trace: Any, layout: Any) -> None:
    x, y = np.meshgrid(trace.x, trace.y)
    heights = np.array([list(row) for row in trace.z])
    axes.plot_surface(x, y, heights, cmap="cividis", vmin=trace.cmin, vmax=trace.cmax)
    axes.set_zlim(*layout.scene.zaxis.range)
    axes.set_xlabel(_plain(layout.scene.xaxis.title.text), fontsize=8)
    axes.set_ylabel(_plain(layout.scene.yaxis.title.text), fontsize=8)
    axes.set_zlabel(_plain(layout.scene.zaxis.title.text), fontsize=8)
    axes.tick_params(labelsize=7)
    axes.view_init(elev=25, azim=-135)
    axes.set_box_aspect(None, zoom=1.0)


def _categories(traces: Any) -> list[str]:
    found: Iterator[Any] = (value for trace in traces if trace.x is not None for value in trace.x)
    return list(dict.fromkeys(value for value in found if isinstance(value, str)))


def _plain(text: str) -> str:
    """What a plot's label shows; a dollar sign would start a formula."""
    return html.unescape(text).replace("$", r"\$")


def _undated(format: str) -> dict[str, None]:
    """The same figure is the same file, whenever it is written."""
    return {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(format, {})
