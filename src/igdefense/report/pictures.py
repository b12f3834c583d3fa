"""Pictures of comparisons and explanations."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from igdefense.data.data import Data
from igdefense.rankings.compare import Comparison
from igdefense.rankings.explain import Explanation
from igdefense.report.drawing import (
    BLUE,
    GREY,
    INK,
    MARGIN,
    ORANGE,
    PALE,
    SMALL,
    TEXT,
    TITLE,
    Colour,
    Sheet,
    mixed,
    shortened,
    width,
    wrapped,
)

CELL, LINE = 62, 34  # width and height of a number's box
THUMBNAIL, GAP = 96, 10
MOST_CLASSES = 20  # beyond these the picture shows means only


def comparison_picture(comparison: Comparison) -> Image.Image:
    """Every pair of rankings in a row: overlap for each k, Spearman, overlap in each class."""
    pairs, names = comparison.pairs, comparison.class_names
    titles = [shortened(comparison.pair_name(pair), 360) for pair in pairs]
    middle = len(comparison.ks) // 2
    k = comparison.ks[middle]
    shown = names if len(names) <= MOST_CLASSES else ()
    wide = min(110, max([CELL, *(width(name, SMALL) + 12 for name in shown)]))
    left = MARGIN + max(width(t) for t in [*titles, "chance (k / neurons)"]) + 16
    by_class = left + CELL * (len(comparison.ks) + 1) + GAP + 36
    title = f"Do rankings of {comparison.layer} agree?"
    caption = [
        f"Overlap: share of a class's top k of {comparison.neurons} neurons that both rankings "
        "name; white 0, blue 1.",
        "Spearman: correlation of a class's scores; orange -1, white 0, blue 1. "
        f"Means over {len(names)} classes.",
    ]
    heading = f"overlap in each class, k = {k}" if shown else ""
    ends = [MARGIN + width(line, SMALL) for line in caption] + [MARGIN + width(title, TITLE)]
    right = max(*ends, by_class + wide * len(shown), by_class + width(heading)) + MARGIN
    top = Sheet.head(caption) + 56
    sheet = Sheet((right, top + LINE * (len(pairs) + 1) + MARGIN), title, caption)
    sheet.text((left, top - 52), "overlap, mean", TEXT)
    spearman = left + CELL * len(comparison.ks) + GAP
    for i, k_i in enumerate(comparison.ks):
        sheet.text((left + CELL * (i + 0.5), top - 8), f"k = {k_i}", SMALL, GREY, "md")
    sheet.text((spearman + CELL / 2, top - 8), "Spearman", SMALL, GREY, "md")
    sheet.text((by_class, top - 52), heading, TEXT)
    for i, name in enumerate(shown):
        label = shortened(name, wide - 6, SMALL)
        sheet.text((by_class + wide * (i + 0.5), top - 8), label, SMALL, GREY, "md")
    for row, ((a, b), label) in enumerate(zip(pairs, titles, strict=True)):
        y = top + LINE * row
        sheet.text((left - 12, y + LINE / 2), label, TEXT, INK, "rm")
        overlap = comparison.overlap[a, b]
        _shares(sheet, left, y, CELL, overlap.mean(1).tolist())
        known = [c for c in comparison.correlation[a, b].tolist() if not math.isnan(c)]
        mean = sum(known) / len(known) if known else None
        text = "-" if mean is None else f"{mean:.2f}"
        box = (spearman, y, spearman + CELL, y + LINE)
        sheet.cell(box, text, mixed(abs(mean or 0), BLUE if (mean or 0) > 0 else ORANGE))
        _shares(sheet, by_class, y, wide, overlap[middle].tolist()[: len(shown)])
    y = top + LINE * len(pairs)
    sheet.text((left - 12, y + LINE / 2), "chance (k / neurons)", TEXT, GREY, "rm")
    _shares(sheet, left, y, CELL, comparison.chance)
    sheet.cell((spearman, y, spearman + CELL, y + LINE), "0.00", mixed(0, BLUE))
    _shares(sheet, by_class, y, wide, [comparison.chance[middle]] * len(shown))
    return sheet.image


def _shares(sheet: Sheet, x: int, y: int, wide: int, shares: Sequence[float]) -> None:
    for i, share in enumerate(shares):
        box = (x + wide * i, y, x + wide * (i + 1), y + LINE)
        sheet.cell(box, f"{share:.2f}", mixed(share, BLUE))


def explanation_picture(explanation: Explanation, data: Data) -> Image.Image:
    """A row for each neuron: its number and score, its images, the classes it serves."""
    count = explanation.images.shape[1]
    title = f"{explanation.class_name}: top neurons of {explanation.layer} by {explanation.ranking}"
    notes = (
        f"Images: the {count} of {len(data)} on which the neuron is most active, with their "
        f"class and mean activation; blue frame: {explanation.class_name}, orange: another class. "
        f"Serves: the classes with the neuron among their top {explanation.keep} of "
        f"{explanation.width}, and its place there."
    )
    left, room = MARGIN + 130, 300
    served_at = left + count * (THUMBNAIL + GAP) + 20
    right = max(served_at + room, MARGIN + width(title, TITLE)) + MARGIN
    caption = wrapped(notes, right - 2 * MARGIN, SMALL)
    top, tall = Sheet.head(caption), THUMBNAIL + 56
    sheet = Sheet((right, top + tall * len(explanation.neurons) + MARGIN // 2), title, caption)
    for row, neuron in enumerate(explanation.neurons):
        y = top + tall * row
        sheet.draw.line((MARGIN, y - 8, right - MARGIN, y - 8), fill=PALE)
        sheet.text((MARGIN, y + 4), f"neuron {neuron}", 18)
        sheet.text((MARGIN, y + 32), f"score {float(explanation.scores[row]):.3g}", SMALL, GREY)
        _thumbnails(sheet, (left, y), explanation, row, data)
        _served(sheet, (served_at, y), room, explanation, row)
    return sheet.image


def _thumbnails(
    sheet: Sheet, corner: tuple[int, int], explanation: Explanation, row: int, data: Data
) -> None:
    positions = explanation.images[row].tolist()
    levels = explanation.activations[row].tolist()
    for i, (pixels, position, level) in enumerate(
        zip(data.images[positions], positions, levels, strict=True)
    ):
        x, y = corner[0] + i * (THUMBNAIL + GAP), corner[1]
        label = int(data.labels[position])
        frame: Colour = BLUE if label == explanation.label else ORANGE
        box = (x - 3, y - 3, x + THUMBNAIL + 2, y + THUMBNAIL + 2)
        sheet.draw.rectangle(box, outline=frame, width=3)
        sheet.image.paste(_picture(np.asarray(pixels)), (x, y))
        name = shortened(explanation.class_names[label], THUMBNAIL, SMALL)
        sheet.text((x, y + THUMBNAIL + 6), name, SMALL, frame)
        sheet.text((x, y + THUMBNAIL + 24), f"{level:.3g}", SMALL, GREY)


def _picture(pixels: NDArray[Any]) -> Image.Image:
    array = (pixels.transpose(1, 2, 0) * 255).round().astype(np.uint8)
    picture = Image.fromarray(array.squeeze(2) if array.shape[2] == 1 else array).convert("RGB")
    return picture.resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BICUBIC)


def _served(
    sheet: Sheet, corner: tuple[int, int], room: int, explanation: Explanation, row: int
) -> None:
    """The classes as labels, the ones that rank the neuron highest first."""
    x, y = corner
    places = explanation.places[row].tolist()
    served = sorted((p, c) for c, p in enumerate(places) if p < explanation.keep)
    sheet.text((x, y), f"serves {len(served)} of {len(places)} classes", TEXT)
    at, line = x, y + 28
    for i, (place, label) in enumerate(served):
        text = shortened(f"{explanation.class_names[label]} #{place + 1}", room - 14, SMALL)
        wide = width(text, SMALL) + 14
        if at + wide > x + room:
            at, line = x, line + 28
        if line > y + 28 * 4:
            sheet.text((x, line), f"and {len(served) - i} more", SMALL, GREY)
            break
        frame: Colour = BLUE if label == explanation.label else GREY
        sheet.draw.rounded_rectangle((at, line, at + wide, line + 23), 5, outline=frame)
        sheet.text((at + 7, line + 12), text, SMALL, frame, "lm")
        at += wide + 6
