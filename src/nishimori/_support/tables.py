"""A table of short texts, as plain text that fits a terminal, Markdown, LaTeX or HTML.

Cells are what people read, numbers with their errors included. The first column names the row.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import inf

from nishimori._support.escape import html_line, latex_text, markdown_text, printable

WIDTH = 80
"""How many columns a terminal has at least."""

# Names of rows, such as those of classes, are cut in their middle to this width where the table is too wide, and leave room for
# a number beside them.
_NAME, _NUMBER = 24, 14

# Cells that are wider are sentences, which can be broken; they get at least this much room.
_SENTENCE, _LEAST_SENTENCE = 40, 24

_SPACE = "  "

BREAKS = re.compile(r"(?<![=±<>])(?<!\+/-)\s+(?![=±<>%]|\+/-)")
"""Where a line can be broken: not around signs that belong to the numbers beside them."""


@dataclass(frozen=True)
class Tabular:
    """Headers and rows of texts, all of the same length."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self, width: float = inf) -> str:
        """Columns side by side, with two spaces between them, in lines of at most ``width``.

        If the table is wider, headers are broken first, then names are cut, then sentences are broken. If that is not enough,
        the table is continued below itself, with the first column repeated.
        """
        cells = [[printable(cell) for cell in row] for row in (self.headers, *self.rows)]
        columns = [list(column) for column in zip(*cells, strict=True)]
        if _total(map(_widest, columns)) <= width:
            return _block(columns, [_widest(column) for column in columns])
        columns[0] = [shortened(cell, min(_NAME, max(1, int(width) - _NUMBER))) for cell in columns[0]]
        room = int(width) - len(_SPACE) - _column_width(columns[0])
        least = [min(_column_width(column), room) for column in columns]
        prose = [number for number, column in enumerate(columns) if number and _widest(column[1:]) > _SENTENCE]
        if prose:
            others = _total(least[number] for number in range(len(columns)) if number not in prose)
            share = (int(width) - others) // len(prose) - len(_SPACE)
            if share >= _LEAST_SENTENCE:
                for number in prose:
                    least[number] = min(least[number], share)
        return "\n\n".join(
            _block([columns[number] for number in chosen], [least[number] for number in chosen])
            for chosen in _in_blocks(least, width)
        )

    def markdown(self) -> str:
        """A table of GitHub's Markdown."""

        def line(cells: Sequence[str]) -> str:
            return "| " + " | ".join(map(markdown_text, cells)) + " |"

        return "\n".join([line(self.headers), "|" + "---|" * len(self.headers), *map(line, self.rows)])

    def latex(self) -> str:
        """A ``tabular`` with the rules of the package booktabs."""

        def line(cells: Sequence[str]) -> str:
            return " & ".join(map(latex_text, cells)) + r" \\"

        return "\n".join(
            [
                rf"\begin{{tabular}}{{l{'r' * (len(self.headers) - 1)}}}",
                r"\toprule",
                line(self.headers),
                r"\midrule",
                *map(line, self.rows),
                r"\bottomrule",
                r"\end{tabular}",
            ]
        )

    def html(self) -> str:
        """A ``<table>``, as notebooks show it."""

        def line(cells: Sequence[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html_line(cell)}</{tag}>" for cell in cells) + "</tr>"

        body = "".join(line(row, "td") for row in self.rows)
        return f"<table><thead>{line(self.headers, 'th')}</thead><tbody>{body}</tbody></table>"


def text_width(text: str) -> int:
    """The width of a text in terminal columns: two for wide letters, none for marks on the letter before."""
    return sum(_letter_width(letter) for letter in text)


def shortened(text: str, width: int) -> str:
    """A text shortened to a width, with its beginning and its end."""
    if text_width(text) <= width:
        return text
    begin, end = _beginning(text, width // 2), _beginning(text[::-1], width - 1 - width // 2)[::-1]
    return f"{begin}…{end}"


def wrapped(text: str, width: float, indent: str = "") -> list[str]:
    """A text in lines of at most this width; lines after the first are indented.

    Lines are broken between words, but not in "T = 1.5" and "2 %"; a word is broken only if it is wider than a line.
    """
    lines: list[str] = []
    line = ""
    for word in BREAKS.split(text.strip()):
        tried = f"{line} {word}" if line.strip() else line + word
        if text_width(tried) <= width:
            line = tried
            continue
        if line.strip():
            lines.append(line)
        line = (indent if lines else "") + word
        while text_width(line) > width:
            start = _beginning(line, int(width)) or line[0]
            lines.append(start)
            line = indent + line[len(start) :]
    return [*lines, line]


def _letter_width(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def _beginning(text: str, width: int) -> str:
    """The beginning of a text that fits."""
    taken = 0
    for place, letter in enumerate(text):
        taken += _letter_width(letter)
        if taken > width:
            return text[:place]
    return text


def _widest(cells: Sequence[str]) -> int:
    return max(map(text_width, cells), default=0)


def _column_width(column: Sequence[str]) -> int:
    """The width of a column, with a header broken between words."""
    header, *cells = column
    return max(_widest(cells), _widest(header.split()))


def _total(widths: Iterable[int]) -> int:
    """The width of columns with a space between them."""
    return sum(width + len(_SPACE) for width in widths) - len(_SPACE)


def _in_blocks(widths: Sequence[int], width: float) -> list[list[int]]:
    """The numbers of the columns of each block, the first column in all of them: as few blocks as fit, of similar widths."""
    blocks = _fill(widths, width)
    least = max((_total((widths[0], other)) for other in widths[1:]), default=widths[0])
    narrower = (_fill(widths, narrow) for narrow in range(least, int(min(width, _total(widths)))))
    # The narrowest width that needs no more blocks makes them similar.
    return next((similar for similar in narrower if len(similar) == len(blocks)), blocks)


def _fill(widths: Sequence[int], width: float) -> list[list[int]]:
    blocks: list[list[int]] = [[0]]
    for number in range(1, len(widths)):
        if len(blocks[-1]) > 1 and _total(widths[column] for column in (*blocks[-1], number)) > width:
            blocks.append([0])
        blocks[-1].append(number)
    return blocks


def _block(columns: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    """Columns side by side; cells that are too wide take several lines."""
    headers, *rows = zip(*columns, strict=True)
    ruler = ["-" * width for width in widths]
    above = _lines(headers, widths)
    return "\n".join([*above, *_lines(ruler, widths), *(line for row in rows for line in _lines(row, widths))])


def _lines(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    """The lines of one row."""
    broken = [[cell] if text_width(cell) <= width else wrapped(cell, width) for cell, width in zip(cells, widths, strict=True)]
    return [
        _SPACE.join(part + " " * (width - text_width(part)) for part, width in zip(parts, widths, strict=True)).rstrip()
        for parts in zip_longest(*broken, fillvalue="")
    ]
