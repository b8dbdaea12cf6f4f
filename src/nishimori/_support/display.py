"""The display of a result: a title, tables and notes, as plain text for terminals and as HTML for notebooks.

Every result of the library is a `Displayed`: it says once what it shows, and ``print``, ``to_text`` and notebooks follow.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, Generic, TypeVar

from nishimori._support.escape import html_line, markdown_text, printable
from nishimori._support.formatting import join_names
from nishimori._support.optional import require
from nishimori._support.tables import WIDTH, Tabular, wrapped
from nishimori.errors import InputError

E = TypeVar("E")

PRINTED_ROWS = 20
"""How many rows of a ranked table are printed; `table` has all of them."""

_STANDARD_ERROR = "± is one standard error."


@dataclass(frozen=True)
class Display:
    """A title, tables and notes; names from the data are plain text in all of them.

    ``caveat`` is what has to be known before the rest is read. Of each table ``n_printed`` rows are shown, all if that is None.
    """

    title: str
    tables: tuple[Tabular, ...]
    notes: tuple[str, ...] = ()
    caveat: str = ""
    n_printed: int | None = None

    def text(self, width: float = WIDTH) -> str:
        """Plain text in lines of at most ``width`` columns."""
        parts = [_paragraph([text], width) for text in (self.caveat, self.title) if text]
        for table in self.tables:
            shown, more = self._first_rows(table)
            parts.append("\n".join(filter(None, (shown.text(width), more))))
        return "\n\n".join([*parts, *([_paragraph(notes, width)] if (notes := self._all_notes) else [])])

    def html(self) -> str:
        """One element of HTML without scripts, in which nothing from the data is markup."""
        parts = [_html_paragraph(self.caveat), _html_paragraph(self.title, "strong")]
        for table in self.tables:
            shown, more = self._first_rows(table)
            parts += [shown.html(), _html_paragraph(more)]
        return f"<div>{''.join([*parts, *map(_html_paragraph, self._all_notes)])}</div>"

    def markdown(self) -> str:
        """Markdown with all rows of the tables."""
        parts = [markdown_text(self.caveat), *(table.markdown() for table in self.tables)]
        notes = [markdown_text(note) for note in self._all_notes]
        return "\n\n".join(filter(None, [*parts, "\n".join(f"- {note}" for note in notes)]))

    @property
    def _all_notes(self) -> tuple[str, ...]:
        has_errors = any("±" in cell for table in self.tables for row in table.rows for cell in row)
        return (*self.notes, _STANDARD_ERROR) if has_errors else self.notes

    def _first_rows(self, table: Tabular) -> tuple[Tabular, str]:
        """The rows that are shown, and how many are not, in words."""
        if self.n_printed is None or len(table.rows) <= self.n_printed:
            return table, ""
        return Tabular(table.headers, table.rows[: self.n_printed]), f"... and {len(table.rows) - self.n_printed:,} more"


def _paragraph(texts: Iterable[str], width: float) -> str:
    return "\n".join(line for text in texts for line in wrapped(printable(text), width, indent="  "))


def _html_paragraph(text: str, tag: str = "span") -> str:
    return f"<p><{tag}>{html_line(text)}</{tag}></p>" if text else ""


class Displayed(ABC):
    """A result that ``print`` and notebooks show as tables with notes."""

    @property
    @abstractmethod
    def _display(self) -> Display:
        """The display."""

    def to_text(self) -> str:
        """The tables and notes as plain text, 80 columns wide."""
        return self._display.text()

    def to_markdown(self) -> str:
        """The tables with all of their rows, and the notes, as Markdown."""
        return self._display.markdown()

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return self._display.html()


class NamedEntries(Displayed, Generic[E]):
    """A result with named entries: ``result[name]`` is one entry, and iteration gives all in order."""

    @property
    @abstractmethod
    def _entries(self) -> list[tuple[Any, E]]:
        """The name of each entry, and the entry."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, texts, lists and dictionaries."""

    def __getitem__(self, name: Any) -> E:
        for own, entry in self._entries:
            if own == name:
                return entry
        raise InputError("name", f"be one of {join_names([own for own, _ in self._entries])}", got=repr(name))

    def __iter__(self) -> Iterator[E]:
        return (entry for _, entry in self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def _record(self, entry: E) -> dict[str, Any]:
        """An entry as plain numbers and texts, its name first."""
        return asdict(entry)  # type: ignore[call-overload]  # dataclasses, unless this is written again

    def to_json(self) -> str:
        """Everything as one line of JSON."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def to_latex(self) -> str:
        """The tables with all of their rows as LaTeX, with the rules of the package booktabs."""
        return "\n\n".join(table.latex() for table in self._display.tables)

    def to_pandas(self) -> Any:
        """A data frame with one row per entry."""
        pandas = require("pandas", extra="tables", for_=f"{type(self).__name__}.to_pandas")
        rows = [self._record(entry) for entry in self]
        return pandas.DataFrame(rows).set_index(next(iter(rows[0])))


def short_repr(result: Any, **fields: Any) -> str:
    """The class of a result and some of its values, numbers to four digits, without values that are None."""
    shown = (f"{name}={_short(value)}" for name, value in fields.items() if value is not None)
    return f"{type(result).__name__}({', '.join(shown)})"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) and isfinite(value) else repr(value)


def plural(number: int, noun: str) -> str:
    """A number with its noun, such as "1 sample" and "10,000 samples"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def note_on_clusters(name: str) -> list[str]:
    """The note that error bars are by image, where no clusters were named; else no note."""
    return ["Standard errors are by image (first axis)."] if name == "image" else []
