"""Drawing with Pillow: text is measured before it is placed, so that nothing is clipped."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from igdefense.errors import SettingError
from igdefense.files import written_whole

Colour = tuple[int, int, int]
INK, GREY, PALE, WHITE = (30, 30, 30), (105, 105, 105), (222, 222, 222), (255, 255, 255)
BLUE, ORANGE = (0, 114, 178), (213, 94, 0)  # of Okabe and Ito: told apart by everyone
MARGIN = 24
TITLE, TEXT, SMALL = 24, 16, 14  # sizes in pixels


@cache
def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def width(text: str, size: int = TEXT) -> int:
    """How many pixels wide the text is."""
    return round(font(size).getlength(text))


def shortened(text: str, room: int, size: int = TEXT) -> str:
    """The text, or as much of it as fits with three dots."""
    if width(text, size) <= room:
        return text
    while text and width(text + "...", size) > room:
        text = text[:-1]
    return text + "..."


def wrapped(text: str, room: int, size: int = TEXT) -> list[str]:
    """Lines no wider than `room`, broken between words."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if width(longer, size) > room and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return [shortened(line, room, size) for line in lines]


class Sheet:
    """A white sheet with a title, and a caption below it in which everything is explained."""

    def __init__(self, size: tuple[int, int], title: str, caption: Sequence[str]) -> None:
        self.image = Image.new("RGB", size, WHITE)
        self.draw = ImageDraw.Draw(self.image)
        self.text((MARGIN, MARGIN), title, TITLE)
        for i, line in enumerate(caption):
            self.text((MARGIN, MARGIN + 36 + 20 * i), line, SMALL, GREY)

    @staticmethod
    def head(caption: Sequence[str]) -> int:
        """The height of title and caption."""
        return MARGIN + 36 + 20 * len(caption) + 16

    def text(
        self,
        place: tuple[float, float],
        text: str,
        size: int = TEXT,
        colour: Colour = INK,
        anchor: str = "la",
    ) -> None:
        self.draw.text(place, text, fill=colour, font=font(size), anchor=anchor)

    def cell(self, box: tuple[int, int, int, int], text: str, fill: Colour) -> None:
        """A filled box with centred text, dark on light or light on dark."""
        self.draw.rectangle(box, fill=fill, outline=WHITE, width=1)
        light = 0.299 * fill[0] + 0.587 * fill[1] + 0.114 * fill[2] > 140
        middle = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
        self.text(middle, text, SMALL, INK if light else WHITE, "mm")


def mixed(share: float, end: Colour, start: Colour = WHITE) -> Colour:
    """From `start` at 0 to `end` at 1."""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(start, end, strict=True))
    return red, green, blue


def check_png(path: Path) -> None:
    """Refuse a name that does not end in .png."""
    if path.suffix.lower() != ".png":
        raise SettingError(f"{path} does not end in .png; pictures are PNG files.")


def save_png(picture: Image.Image, path: str | Path) -> None:
    """Write the picture; the file appears when it is whole."""
    check_png(Path(path))
    with written_whole(Path(path)) as part:
        picture.save(part, format="PNG")
