"""The picture of the claims: a table of wrapped text, with the verdict as a coloured word."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from nishimori.plot._style import HUES
from nishimori_paper._claim import Claim, Judgement

# Left edge and width in characters of each column.
_COLUMNS = {"section": (0.0, 12), "the paper says": (0.07, 56), "found here": (0.39, 62), "verdict": (0.745, 44)}
_COLOURS: Mapping[Judgement, str] = {
    "holds": HUES["green"],
    "holds with a condition": HUES["blue"],
    "slip of the pen": HUES["purple"],
    "contradicted": HUES["vermilion"],
    "cannot be judged here": "0.4",
}
_FONT = 7.5
# Inches: height of a line of text, space between rows, height of the header.
_LINE, _SPACE, _HEADER = 0.14, 0.1, 0.35


def draw_claims(claims: Sequence[Claim], pyplot: Any) -> Any:
    """A figure that is as tall as its text."""
    rows = [_wrapped(claim) for claim in claims]
    heights = [_LINE * max(len(lines) for lines in row.values()) + _SPACE for row in rows]
    figure = pyplot.figure(figsize=(12.5, sum(heights) + _HEADER))
    ax = figure.add_axes((0.01, 0.0, 0.98, 1.0))
    ax.set(xlim=(0, 1), ylim=(sum(heights) + _HEADER, 0))
    ax.axis("off")
    for header, (x, _) in _COLUMNS.items():
        ax.text(x, _HEADER / 2, header, weight="bold", fontsize=_FONT + 1, va="center")
    y = _HEADER
    for claim, row, height in zip(claims, rows, heights, strict=True):
        ax.axhline(y, color="0.85", linewidth=0.6)
        for header, lines in row.items():
            for i, line in enumerate(lines):
                text = ax.text(_COLUMNS[header][0], y + _SPACE / 2 + _LINE * (i + 0.5), line, fontsize=_FONT, va="center")
                if line == claim.verdict.upper():
                    text.set(color=_COLOURS[claim.verdict], weight="bold")
        y += height
    return figure


def _wrapped(claim: Claim) -> dict[str, list[str]]:
    """The lines of each column."""
    texts = {
        "section": [claim.section],
        "the paper says": [f"“{claim.quotation}”"],
        "found here": [claim.ours, claim.paper_data and f"Paper's data: {claim.paper_data}"],
        "verdict": [claim.verdict.upper(), claim.condition, f"True only of {claim.true_only_of}." * bool(claim.true_only_of)],
    }
    # A dollar sign, as for a formula, would start mathematics in Matplotlib.
    return {
        header: [line for text in texts[header] for line in textwrap.wrap(text.replace("$", r"\$"), width)]
        for header, (_, width) in _COLUMNS.items()
    }
