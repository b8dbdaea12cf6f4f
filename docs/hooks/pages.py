"""What the theme leaves open: formulas, and a name for the search dialog.

Formulas become MathML when the site is built. Every current browser shows it, so pages need neither scripts nor fonts from
elsewhere, screen readers can read it, and CI needs no Node.js, which KaTeX would take.
"""

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(?P<tag>span|div) class="arithmatex">\\(?P<kind>[(\[])(?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL)


# What people look for first; search puts these before pages that have the same words more often.
FIRST = ("index.md", "torch.md", "cite.md", "metrics.md", "api/measuring.md", "api/calibrators.md", "api/torch.md")
HEADING = re.compile(r"(?=<h([1-6])[ >])")
MORE = "<!-- more -->"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Say which pages search prefers."""
    if page.file.src_uri in FIRST:
        page.meta["search"] = {"boost": 3}
    return markdown


def on_page_content(content: str, **_: Any) -> str:
    """Typeset formulas, and fold what follows ``<!-- more -->`` up to the next heading of the same rank or a higher one."""
    return folded(FORMULA.sub(lambda found: mathml(found["tex"], is_block=found["kind"] == "["), content))


def folded(content: str) -> str:
    """The page with its details closed; who follows a link to a heading inside finds them open."""
    first, *rest = HEADING.split(content)  # text, rank, text, rank, text, ...
    if MORE in first:
        raise ValueError(f"{MORE} must follow a heading")
    page, open_rank = first, 0
    for rank, section in zip(map(int, rest[::2]), rest[1::2], strict=True):
        if open_rank and rank <= open_rank:
            page, open_rank = page + "</details>", 0
        shown, mark, hidden = section.partition(MORE)
        if mark and not open_rank:
            shown, open_rank = f'{shown}<details class="more"><summary>Details</summary>', rank
        page += shown + hidden.replace(MORE, "")
    return page + "</details>" * bool(open_rank)


def mathml(tex: str, *, is_block: bool) -> str:
    """One formula, in a frame that scrolls if it is wider than the page."""
    formula = convert(html.unescape(tex).strip(), display="block" if is_block else "inline")
    if "\\" in formula:
        raise ValueError(f"the converter does not know a command of {tex}")
    return f'<div class="formula" tabindex="0">{formula}</div>' if is_block else formula


def on_post_page(output: str, **_: Any) -> str:
    """Name the search dialog, for screen readers."""
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )
