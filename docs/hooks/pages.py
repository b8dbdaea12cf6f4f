"""What the theme leaves open: formulas, descriptions of pages, what search prefers, and a name for the search dialog.

Formulas become MathML when the site is built. Every current browser shows it, so pages need neither scripts nor fonts from
elsewhere, screen readers can read it, and CI needs no Node.js, which KaTeX would take.
"""

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(?P<tag>span|div) class="arithmatex">\\(?P<kind>[(\[])(?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL)


# Search puts these before pages that have the same words more often, and guides before the reference.
FIRST = {f"{name}.md": 5 for name in ("index", "torch", "trust", "metrics", "cite")}
FIRST |= {f"api/{name}.md": 3 for name in ("measuring", "calibrators", "torch")}


LINK = re.compile(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")
FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
SENTENCE = re.compile(r"(?<=[.?!])\s+(?=\W*[A-Z])")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Describe the page to search engines and in ``llms.txt``, and say whether search prefers it."""
    page.meta.setdefault("description", description(markdown))
    if page.file.src_uri in FIRST:
        page.meta["search"] = {"boost": FIRST[page.file.src_uri]}
    return markdown


def description(markdown: str) -> str:
    """The first sentences of the first paragraph: as many as 240 characters hold, and at least one."""
    paragraphs = (" ".join(each.split()) for each in LINK.sub(r"\1", FENCED.sub("", markdown)).split("\n\n"))
    found, *more = SENTENCE.split(next(each for each in paragraphs if each[:1].isalpha() or each.startswith(('"', "`", "**"))))
    for sentence in more:
        if len(found) + len(sentence) >= 240:
            break
        found += f" {sentence}"
    return re.sub(":$", ".", re.sub(r"`|\*\*", "", found))


def on_page_content(content: str, **_: Any) -> str:
    """Typeset formulas."""
    return FORMULA.sub(lambda found: mathml(found["tex"], is_block=found["kind"] == "["), content)


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
