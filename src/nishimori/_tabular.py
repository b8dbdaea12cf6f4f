"""A table of short texts, as plain text, Markdown, LaTeX or HTML.

Cells are what people read, numbers with their errors included. The first column names the row.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

# What LaTeX would take for a command.
_ESCAPED = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": "$-$",
    "Δ": r"$\Delta$",
}


@dataclass(frozen=True)
class Tabular:
    """Headers and rows of texts, all of the same length."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        """Columns side by side, with two spaces between them."""
        widths = [max(map(len, column)) for column in zip(self.headers, *self.rows, strict=True)]

        def line(cells: Sequence[str]) -> str:
            first, *others = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
            return "  ".join((first, *others)).rstrip()

        return "\n".join([line(self.headers), line(["-" * width for width in widths]), *map(line, self.rows)])

    def markdown(self) -> str:
        """A table of GitHub's Markdown."""

        def line(cells: Sequence[str]) -> str:
            return "| " + " | ".join(cell.replace("\\", "\\\\").replace("|", "\\|") for cell in cells) + " |"

        return "\n".join([line(self.headers), "|" + "---|" * len(self.headers), *map(line, self.rows)])

    def latex(self) -> str:
        """A ``tabular`` with the rules of the package booktabs."""

        def line(cells: Sequence[str]) -> str:
            return " & ".join("".join(_ESCAPED.get(letter, letter) for letter in cell) for cell in cells) + r" \\"

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
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        body = "".join(line(row, "td") for row in self.rows)
        return f"<table><thead>{line(self.headers, 'th')}</thead><tbody>{body}</tbody></table>"


def decimals_of(error: float) -> int:
    """How many decimals show two digits of a positive error."""
    return max(0, 1 - int(f"{error:.1e}".partition("e")[2]))


def measured(value: float, error: float | None) -> str:
    """A number with its standard error, both to two digits of the error; six digits if that is not known."""
    if error is None or not 0 < error < inf:
        return f"{value:.6g}"
    decimals = decimals_of(error)
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"
