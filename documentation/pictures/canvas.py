"""How every picture looks, and how it is written."""

import io
import re
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

INK, GREY = "#263238", "#90a4ae"
RIGHT, WRONG, THIRD = "#1565c0", "#d84315", "#2e7d32"  # the true class and two others
LIGHT = {RIGHT: "#e3f2fd", WRONG: "#fbe9e7", THIRD: "#e8f5e9"}

mpl.use("svg")
mpl.rcParams.update(
    {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 9,
        "text.color": INK,
        "axes.edgecolor": GREY,
        "axes.labelcolor": INK,
        "axes.titlesize": 9.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "xtick.color": INK,
        "ytick.color": INK,
        "legend.frameon": False,
        "legend.fontsize": 8.5,
        "svg.fonttype": "none",  # text stays text: small files, any zoom
        "svg.hashsalt": "igdefense",  # the same picture is the same file
    }
)


def panels(count: int = 1, *, height: float = 2.7, width: float = 7.4) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side."""
    figure = Figure(figsize=(width, height), layout="constrained")
    found: Any = figure.subplots(1, count, squeeze=False)
    return figure, list(found[0])


def written(figure: Figure) -> str:
    """An SVG without a date, so that drawing it again changes nothing, to a tenth of a point."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    short = re.sub(r' d="([^"]*)"', lambda found: _shorter(found[1]), text.getvalue())
    return re.sub(r"[ \t]+$", "", short, flags=re.MULTILINE)


def _shorter(outline: str) -> str:
    rounded = re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.1f}", outline)
    return f' d="{" ".join(rounded.split())}"'


def box(
    axes: Axes, at: tuple[float, float], size: tuple[float, float], text: str, fill: str = "#eceff1"
) -> None:
    """A box of a diagram, by its centre."""
    corner = (at[0] - size[0] / 2, at[1] - size[1] / 2)
    style = "round,pad=0,rounding_size=0.08"
    axes.add_patch(FancyBboxPatch(corner, *size, boxstyle=style, fc=fill, ec=GREY, lw=0.8))
    axes.text(*at, text, ha="center", va="center", fontsize=8.5, linespacing=1.25)


def arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    text: str = "",
    *,
    colour: str = INK,
    dashed: bool = False,
    bend: float = 0.0,
    above: float = 0.12,
) -> None:
    """An arrow of a diagram, with a word at its middle."""
    style = {
        "arrowstyle": "-|>",
        "color": colour,
        "lw": 1.1,
        "ls": "--" if dashed else "-",
        "connectionstyle": f"arc3,rad={bend}",
        "shrinkA": 0,
        "shrinkB": 0,
        "mutation_scale": 9,
    }
    axes.annotate("", xy=end, xytext=start, arrowprops=style)
    if text:
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + above)
        axes.text(*middle, text, ha="center", va="center", fontsize=8, color=colour)


def sheet(axes: Axes, width: float, height: float) -> None:
    """An empty sheet for a diagram."""
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.axis("off")
