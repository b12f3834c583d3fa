"""Figure: a plot, what it shows in words, and its numbers."""

import csv
import html
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from igdefense.verdicts.statistics import Share

BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
YELLOW, SKY, GREY = "#E69F00", "#56B4E9", "#8C8C8C"
COLOURS = (BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, GREY)  # of Okabe and Ito: told apart by everyone
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid")
PERCENT = {"range": [0, 104], "ticksuffix": " %"}

Row = tuple[str | int | float, ...]


@dataclass(frozen=True, eq=False)
class Figure:
    """One plot of a page or a paper."""

    name: str  # of its file
    title: str
    caption: str
    plot: go.Figure
    head: tuple[str, ...]
    rows: tuple[Row, ...]
    tall: int = 380  # pixels

    def csv(self) -> str:
        """The numbers behind the plot."""
        return as_csv(self.head, self.rows)


def as_csv(head: Sequence[str], rows: Sequence[Row]) -> str:
    """Rows as comma-separated text, quoted where needed."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()


def shown(text: str) -> str:
    """Text for a plot, whose labels know some HTML: what looks like a tag is shown as it is."""
    return html.escape(text, quote=False)


def blank(x: str, y: str, *, legend: bool = True, **layout: Any) -> go.Figure:
    """An empty plot with its axes named; the page sets fonts and colours."""
    plot = go.Figure()
    plot.update_layout(
        template="none",
        margin={"l": 70, "r": 16, "t": 16, "b": 56},
        xaxis={"title": {"text": x, "standoff": 10}, "automargin": True},
        yaxis={"title": {"text": y, "standoff": 14}, "automargin": True},
        showlegend=legend,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "xanchor": "left"},
        **layout,
    )
    return plot


def numbers(share: Share) -> tuple[int, int, float, float, float]:
    """Count, total, and accuracy with its interval in %."""
    low, high = share.interval
    return share.count, share.total, 100 * share.value, 100 * low, 100 * high


def errors(shares: Sequence[Share]) -> dict[str, Any]:
    """Whiskers from the ends of the intervals."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [100 * (s.interval[1] - s.value) for s in shares],
        "arrayminus": [100 * (s.value - s.interval[0]) for s in shares],
        "thickness": 1.5,
        "width": 3,
        "color": GREY,
    }
