"""Formulas become MathML when the site is built: pages need neither scripts nor fonts from elsewhere to show them."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(?P<tag>span|div) class="arithmatex">\\(?P<kind>[(\[])(?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Replace what arithmatex has marked."""
    return FORMULA.sub(lambda found: mathml(found["tex"], is_block=found["kind"] == "["), content)


def mathml(tex: str, *, is_block: bool) -> str:
    """One formula, in a frame that scrolls if it is wider than the page."""
    formula = convert(html.unescape(tex).strip(), display="block" if is_block else "inline")
    if "\\" in formula:
        raise ValueError(f"the converter does not know a command of {tex}")
    return f'<div class="formula" tabindex="0">{formula}</div>' if is_block else formula
