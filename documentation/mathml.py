"""Formulas as MathML, made when the site is built: browsers draw them without any script."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(text: str, **_: Any) -> str:
    """Replace what arithmatex marked as a formula."""
    text = BLOCK.sub(lambda found: _mathml(found[1], "block"), text)
    return INLINE.sub(lambda found: _mathml(found[1], "inline"), text)


def _mathml(latex: str, display: str) -> str:
    made: str = convert(html.unescape(latex).strip(), display=display)
    return made
