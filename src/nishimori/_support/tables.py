"""A table of short texts, as plain text, Markdown, LaTeX or HTML.

Cells are what people read, numbers with their errors included. The first column names the row.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from nishimori._support.escape import html_text, latex_text, markdown_text, printable

# So many rows of a ranked table are printed; `table` has all of them.
_PRINTED = 20


@dataclass(frozen=True)
class Tabular:
    """Headers and rows of texts, all of the same length."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        """Columns side by side, with two spaces between them."""
        headers, *rows = ([printable(cell) for cell in row] for row in (self.headers, *self.rows))
        widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]

        def line(cells: Sequence[str]) -> str:
            first, *others = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
            return "  ".join((first, *others)).rstrip()

        return "\n".join([line(headers), line(["-" * width for width in widths]), *map(line, rows)])

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
            return "<tr>" + "".join(f"<{tag}>{html_text(cell)}</{tag}>" for cell in cells) + "</tr>"

        body = "".join(line(row, "td") for row in self.rows)
        return f"<table><thead>{line(self.headers, 'th')}</thead><tbody>{body}</tbody></table>"


class RankedTable(ABC):
    """Results for parts of the data, such as groups or labels: a table of them, the worst first, and a summary."""

    @property
    @abstractmethod
    def worst_first(self) -> tuple[Any, ...]:
        """The results in order, those with a gap that is not noise first."""

    @property
    @abstractmethod
    def table(self) -> Tabular:
        """The table of all results, the worst first."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """The most important numbers, as a sentence."""

    @property
    def off(self) -> tuple[Any, ...]:
        """The names of the results with a gap that is not noise, the worst first."""
        return tuple(each.name for each in self.worst_first if each.is_off)

    def to_text(self) -> str:
        """The worst results and the summary as plain text."""
        table = self.table
        more = len(table.rows) - _PRINTED
        shown = Tabular(table.headers, table.rows[:_PRINTED]).text()
        return "\n".join([shown, *([f"... and {more} more"] if more > 0 else []), "", printable(self.summary)])

    def to_markdown(self) -> str:
        """The table of all results and the summary as Markdown."""
        return f"{self.table.markdown()}\n\n{markdown_text(self.summary)}"

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self.table.html() + Tabular(("summary",), [(self.summary,)]).html()


def in_points(gap: float, error: float) -> str:
    """A difference of shares in percentage points with its error, both to two digits of the error."""
    decimals = decimals_of(100 * error) if error > 0 else 2
    return f"{100 * gap:+.{decimals}f} ± {100 * error:.{decimals}f}"


def signed(value: float) -> str:
    """A change in percent or points with a real minus sign: "−28", "−3.0", "+0.12"; "0" if nothing changes."""
    decimals = 0 if abs(value) >= 10 else 1 if abs(value) >= 1 else 2
    text = f"{value:+.{decimals}f}".replace("-", "−")
    return text if float(text[1:]) else "0"


def decimals_of(error: float) -> int:
    """How many decimals show two digits of a positive error."""
    return max(0, 1 - int(f"{error:.1e}".partition("e")[2]))


def value_with_error(value: float, error: float | None) -> str:
    """A number with its standard error, both to two digits of the error; six digits if that is not known."""
    if error is None or not 0 < error < inf:
        return f"{value:.6g}"
    decimals = decimals_of(error)
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"
