"""Every error and warning that nishimori raises on purpose, and how messages name arguments.

::

    NishimoriError (ValueError)
    ├── InputError                 an argument is not what it must be
    │   ├── NoRowsError            there is no row of positive weight
    │   └── DegenerateDataError    the data are valid, but do not determine what the method fits
    ├── NoTemperatureError         no temperature satisfies the condition asked for, or the data do not determine it
    ├── NotConvergedError          a search ended before its result was precise enough
    ├── MergeError                 two sums cannot be added, because they sum different things
    └── FormatError                a file is damaged, of another kind, or newer than this library

    InputWarning (UserWarning)        the data can be used, but may not be what was meant
        SameRowsWarning               rows are measured after they were fitted to, or compared with themselves
    FewErrorsWarning (UserWarning)    few samples decide the temperature, so it is uncertain

All errors are `ValueError`, so code that catches scikit-learn's errors catches them too.

An `InputError` keeps what it is about in parts, and its text is made from them in one place. So whoever knows more about the
data (a file its lines, a loader its batches) adds it with `InputError.changed`, and no code reads a text to find out. Arguments
that a text names go through `setting`, which writes them as they are typed: in Python, or in the shell.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

ABSENT: Any = object()
"""Marks an argument without a value."""


class _ToChoose:
    """Stands for a value that the reader has to choose."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


A_NAME, NAMES = _ToChoose("..."), _ToChoose("[...]")
"""Placeholders for a value that the reader has to choose: one name, or several."""

# Arguments of `nishimori.rows` alone: other functions are given the rows that it makes.
_OF_ROWS = {"columns", "ignore", "delimiter", "decimal", "max_rows"}

Writer = Callable[[str, object], str]
"""A function that writes an argument as it is typed, from its name and its value (or `ABSENT`)."""


def in_python(name: str, value: object = ABSENT) -> str:
    """An argument as it is typed in Python, such as `floor` or `input='probabilities'`."""
    if name == "confidence" and value is not ABSENT:  # the column, see `claims`
        return f"`nishimori.claims(..., columns={value!r})`"
    in_rows = name in _OF_ROWS and value is not ABSENT
    typed = name if value is ABSENT or (value is A_NAME and not in_rows) else f"{name}={value!r}"
    return f"`nishimori.rows(..., {typed})`" if in_rows else f"`{typed}`"


# For the whole process, and not in a context variable, because files are read in threads, whose errors count too.
_writer: Writer = in_python


def setting(name: str, value: object = ABSENT) -> str:
    """An argument, for a message, as its reader types it: `input='probabilities'`, or --input probabilities in the shell."""
    return _writer(name, value)


@contextmanager
def arguments_written(writer: Writer) -> Iterator[None]:
    """Inside the block, messages write arguments with ``writer``."""
    global _writer  # noqa: PLW0603 - see above
    before, _writer = _writer, writer
    try:
        yield
    finally:
        _writer = before


class NishimoriError(ValueError):
    """Base class of all errors below."""


class InputError(NishimoriError):
    """An argument is not what it must be; the message names it and says what to do.

    Its text is "`argument` must `must`, got `got` in row `row`, column `column`. `remedy`".

    Parameters
    ----------
    argument : str
        The name of the argument. With a blank in it, another subject, such as "The network". Where ``must`` is left out, the
        whole message.
    must : str
        What the argument must do, such as "be a positive number".
    got : object, optional
        What was passed instead, in words.
    remedy : str
        What to do: whole sentences.
    row : int or tuple of int, optional
        The row at fault, counted from 0; a position where rows have several dimensions.
    column : int, optional
        Its column.
    place : str
        Words in place of ``row`` and ``column``, such as "line 12, column 'z_3'".
    where : str
        Where the data come from, such as a file or "Batch 3". The text begins with this.
    """

    def __init__(
        self,
        argument: str,
        must: str = "",
        got: object = ABSENT,
        remedy: str = "",
        *,
        row: int | tuple[int, ...] | None = None,
        column: int | None = None,
        place: str = "",
        where: str = "",
    ) -> None:
        super().__init__(argument, must)
        self.argument = argument
        self.must = must
        self.got: str | None = None if got is ABSENT else str(got)
        self.remedy = remedy
        self.row = row
        self.column = column
        self.place = place
        self.where = where

    def changed(self, **parts: Any) -> Self:
        """A copy of the error with other parts, such as ``where``."""
        duplicate = type(self)(self.argument, self.must)  # `copy` shares the parts where tblib, which Dask uses, is installed
        vars(duplicate).update(vars(self) | parts)
        return duplicate

    def __str__(self) -> str:
        text = self._subject()
        if self.must:
            text += f" must {self.must}" + ("" if self.got is None else f", got {self.got}")
            text += f" in {place}." if (place := self.place or self._row_and_column()) else "."
        return " ".join(part for part in (self.where and f"{self.where}:", text, self.remedy) if part)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def _subject(self) -> str:
        if not self.must or " " in self.argument:
            return self.argument
        written = setting(self.argument)
        return written[:1].upper() + written[1:]

    def _row_and_column(self) -> str:
        """The row and the column, counted from 0."""
        if self.row is None:
            return ""
        row = f"row {self.row}" if isinstance(self.row, int) else f"row ({', '.join(map(str, self.row))})"
        return row if self.column is None else f"{row}, column {self.column}"


class NoRowsError(InputError):
    """The data have no row of positive weight."""


class DegenerateDataError(InputError):
    """The data are valid, but too few or too much alike to determine what the method fits, such as samples of one class."""


class NoTemperatureError(NishimoriError):
    """No finite positive temperature satisfies the condition asked for, or the data do not determine it.

    Attributes
    ----------
    why : str
        Why there is none, in sentences.
    remedy : str
        What to do, in sentences; empty if there is nothing to say.
    end : {"cold", "hot", "flat", "uncertain"}
        Where the condition would hold: "cold" only in the limit T → 0, "hot" only in the limit T → ∞. "flat": T has no effect,
        because all logits of each row are equal. "uncertain": at a temperature whose standard error is as large as itself.
    """

    def __init__(self, why: str, remedy: str = "", *, end: str) -> None:
        super().__init__(f"{why} {remedy}".strip())
        self.why = why
        self.remedy = remedy
        self.end = end

    def __reduce__(self) -> tuple[object, ...]:
        # The default pickling of exceptions loses keyword-only arguments.
        return partial(type(self), end=self.end), (self.why, self.remedy)


class NotConvergedError(NishimoriError):
    """A search ended before its result was precise enough."""


class MergeError(NishimoriError):
    """Two sums cannot be added, because they sum different things."""


class FormatError(NishimoriError):
    """A file is damaged, is of another kind, or was written by a newer version of nishimori."""


class FewErrorsWarning(UserWarning):
    """The temperature is uncertain: fewer than ten wrong or right answers decide it, or they are hardly better than chance."""


class InputWarning(UserWarning):
    """The data can be used but may not be what was meant, such as logits that look like probabilities."""


class SameRowsWarning(InputWarning):
    """Rows are used twice: measured after they were fitted to, or on both sides of a comparison. JSON lists it first."""
