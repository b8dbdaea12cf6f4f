"""Rows that are read piece by piece, again for each pass: what streams, files and loaders have in common.

A piece is a few megabytes of rows. A subclass says how pieces are read and what their rows are; here they are read ahead,
checked, counted and shown. Only the first pass checks values. Every later one must give the same rows, which is checked as
far as their number, weight and labels tell and, where logits are computed again, by a `Fingerprint` of them.
"""

from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from operator import or_
from typing import Any, Generic, TypeVar

import numpy as np

from nishimori._rows.array_rows import ArrayRows, ReadOptions
from nishimori._rows.batch import Batch
from nishimori._rows.fingerprint import Fingerprint, RowDigest, SpacedRows
from nishimori._rows.rows import Rows, Sum, combined_by, without_rows
from nishimori._rows.scores import ScoreRange, Scores
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori._support.progress import Report, show_progress, silent
from nishimori.errors import InputError

P = TypeVar("P")
T = TypeVar("T", bound=Sum)

# Sums of the same weights in another order differ by rounding.
_SAME_WEIGHT = 1e-9

# What to do about other rows in a later pass.
_SAME_ROWS = "Check that no iterator inside it is used up, and that rows are not drawn at random or dropped, as by `drop_last`."

# Numbers in a piece: 2**20 take 4 MB in single precision, which a disk reads in one go and which takes long enough to compute
# that handing it from one thread to another does not matter.
_NUMBERS = 2**20

# Numbers of rows that are kept: 8 MiB of float64.
_MOST_KEPT = 2**20

_END: Any = object()  # in place of a piece after the last one


def rows_per_piece(n_classes: int) -> int:
    """How many rows form a piece: whole blocks, so that a file gives the same blocks as an array in memory."""
    step = arrays.rows_per_block(np.empty(0), n_classes)
    return step * max(1, _NUMBERS // (step * n_classes))


def ahead(items: Generator[P, None, None]) -> Iterator[P]:
    """Iterate over ``items`` in order; a thread reads the next item while the caller uses the current one.

    An error of the pass is raised here with its own traceback. However the iteration ends, the thread has ended and
    ``items`` is closed before control returns to the caller.
    """
    with ThreadPoolExecutor(1, "nishimori reads ahead") as thread:
        try:
            following = thread.submit(next, items, _END)
            while (item := following.result()) is not _END:
                following = thread.submit(next, items, _END)
                yield item
        finally:
            try:
                thread.submit(items.close)
            except RuntimeError:  # the interpreter is ending, and the thread has ended before
                items.close()


@dataclass(frozen=True)
class ReadingTotals(Sum):
    """Totals of a pass so far: the number of rows, of rows with positive weight, their weight, and the sum of their labels.

    ``logits`` is their fingerprint where they are computed again in each pass, and ``by_class`` their weight in each class.
    """

    n_rows: int = 0
    n_counted: int = 0
    weight: float = 0.0
    labels: int = 0
    has_masks: bool = field(default=False, metadata=combined_by(or_))
    logits: Fingerprint = field(default_factory=Fingerprint)
    by_class: HostArray | None = None

    @classmethod
    def from_rows(cls, rows: ArrayRows, before: "ReadingTotals | None", *, are_computed: bool) -> "ReadingTotals":
        """The totals of rows that have been read; ``before`` are the totals of the first pass, if this is a later one.

        ``are_computed`` if their logits are computed again in each pass.
        """
        counted = rows.weights > 0
        weight, labels = float(rows.weights.sum()), int(rows.labels[counted].sum())
        logits = Fingerprint.from_rows(rows, is_first=before is None) if are_computed else Fingerprint()
        by_class = rows.class_weights if before is None else None
        return cls(rows.n_rows, int(counted.sum()), weight, labels, rows.has_masks, logits, by_class)

    def refuse_change(self, later: "ReadingTotals", name: str, *, rows_remedy: str, logits_remedy: str) -> None:
        """Raise unless a later pass can have given the same rows, in any order; ``name`` is the name of the data."""
        same_counts = (self.n_rows, self.n_counted, self.labels) == (later.n_rows, later.n_counted, later.labels)
        if not (same_counts and abs(self.weight - later.weight) <= _SAME_WEIGHT * self.weight):
            first, again = (f"{totals.n_counted} rows of weight {totals.weight:.10g}" for totals in (self, later))
            again = "as many rows with other labels" if first == again else again
            raise InputError(name, "give the same rows in every pass", got=f"{again} after {first}", remedy=rows_remedy)
        if not self.logits.agrees(later.logits):
            got = "logits that change from one pass to the next while rows and labels stay the same"
            causes = "random augmentation, dropout, sampling, or a generator that is not started again with the same seed"
            remedy = f"Likely causes are {causes}. {logits_remedy}"
            raise InputError(name, "give the same logits in every pass over the data", got=got, remedy=remedy)


class Pieces(Rows, Generic[P]):
    """Rows that are read piece by piece.

    ``progress`` is that of public functions: None shows a bar if standard error is a terminal. ``read_ahead`` reads the next
    piece in a thread while the sums of the one before are computed.
    """

    remedy: str | None = None
    """What the user can do if logits change from one pass to the next; None for stored logits, which cannot change."""

    def __init__(self, meaning: ReadOptions, *, progress: bool | None, read_ahead: bool) -> None:
        self.meaning = meaning
        self.floor, self.input = meaning.floor, meaning.input
        self._progress = progress
        self._read_ahead = read_ahead
        self._first_totals: ReadingTotals | None = None  # by the first complete pass
        self._n_classes: int | None = None
        self._judged = meaning.guard is None  # whether scores that nobody has said anything about can be logits
        self._n_passes = 0
        self._digest: str | None = None  # of the rows of the first complete pass
        self._digest_callbacks: list[Callable[[str], None]] = []  # who waits for it
        self._kept: tuple[Scores, SpacedRows] | None = None  # some rows of that pass, and what their scores are

    @contextmanager
    def defer_probability_check(self) -> Iterator[None]:
        """Let the next pass after the block judge the range of the scores."""
        before, self._judged = self._judged, True
        try:
            yield
        finally:
            self._judged = before

    @abstractmethod
    def read(self) -> Generator[P, None, None]:
        """The pieces of one pass, in order; a thread may run this."""

    @abstractmethod
    def rows(self, piece: P) -> ArrayRows | None:
        """The rows of a piece, with checked labels and weights, or None if it has none."""

    def place(self, error: InputError, piece: P | None) -> InputError:  # noqa: ARG002 - for those that have places
        """Add the place of the rows to an error about a piece, or about all rows if it is None."""
        return error

    @property
    def name(self) -> str:
        """The name of the data in the caller's signature."""
        return self.meaning.names[0]

    @property
    def n_classes(self) -> int:
        if self._n_classes is None:
            self._n_classes = self.first().n_classes
        return self._n_classes

    @property
    def n_rows(self) -> int | None:
        return None if self._first_totals is None else self._first_totals.n_rows

    @property
    def digest(self) -> str | None:
        return self._digest

    @property
    def class_weights(self) -> HostArray | None:
        return None if self._first_totals is None else self._first_totals.by_class

    @property
    def kept(self) -> ArrayRows | None:
        """Evenly spaced rows from the first pass."""
        if self._kept is None:
            return None
        scores, rows = self._kept
        weights = arrays.ones(len(rows.labels)) if rows.weights is None else rows.weights
        return ArrayRows(replace(scores, floor=self.floor), rows.labels, weights)

    def on_digest(self, callback: Callable[[str], None]) -> None:
        """Call ``callback`` with the digest of these rows, now or at the end of the first pass."""
        if self._digest is None:
            self._digest_callbacks.append(callback)
        else:
            callback(self._digest)

    def with_floor(self, floor: float | None) -> Rows:
        """A copy of these rows in which probabilities below ``floor`` are raised to it; None leaves them as passed."""
        duplicate = copy(self)
        duplicate.meaning, duplicate.floor = replace(self.meaning, floor=floor), floor
        duplicate._first_totals = None  # what a pass found is that of other logits
        return duplicate

    def first(self) -> ArrayRows:
        """The first rows, from a pass that ends there."""
        with closing(self.read()) as pieces:
            for piece in pieces:
                with self._errors_at(piece):
                    rows = self.rows(piece)
                if rows is not None:
                    return rows
        raise without_rows()

    def __iter__(self) -> Iterator[Batch]:
        for piece, rows in self._reading():
            with self._errors_at(piece):
                yield from rows

    def _reading(self) -> Generator[tuple[P, ArrayRows], None, None]:
        """One pass; it ends with an error if its rows differ from those of the first pass."""
        before, now, digest = self._first_totals, None, RowDigest(_MOST_KEPT)
        score_range, like = ScoreRange(), None
        pieces = ahead(self.read()) if self._read_ahead else self.read()
        with closing(pieces):  # type: ignore[type-var]
            for piece in pieces:
                with self._errors_at(piece):
                    rows = self.rows(piece)
                if rows is None:
                    continue
                self._n_classes = self._n_classes or rows.n_classes
                if before is not None:
                    # The values are known to be good, but a loader that shuffles may have masks in other blocks than before.
                    rows.trust(None if before.has_masks else False)
                if not (self._judged or score_range.is_settled):
                    score_range += ScoreRange.from_scores(rows.scores, rows.weights)
                if now is not None and now.has_masks:  # of which there will be more
                    rows.at_once = False
                yield piece, rows
                if self._digest is None:
                    digest.add(rows.scores, rows.labels, rows.weights)
                    like = rows.scores
                totals = ReadingTotals.from_rows(rows, before, are_computed=self.remedy is not None)
                now = totals if now is None else now + totals
        if before is not None:
            before.refuse_change(now or ReadingTotals(), self.name, rows_remedy=_SAME_ROWS, logits_remedy=self.remedy or "")
        if now is None or not now.n_rows:
            raise without_rows()
        if not self._judged:
            self.score_range = score_range
            with self._errors_at(None):
                self.meaning.check_range(score_range)
            self._judged = True  # an error comes again with the next pass
        self._first_totals = now if before is None else before
        if self._digest is None and (text := digest.text) is not None:
            self._digest = text
            if like is not None and (kept := digest.rows) is not None:
                self._kept = (replace(like, array=kept.scores, leading=(), unpooled=()), kept)
            while self._digest_callbacks:
                self._digest_callbacks.pop(0)(text)

    def gather(self, pass_: Callable[[Batch], T], report: Report = silent) -> T:
        """The sum of ``pass_`` over all rows, with a bar unless the caller has its own."""
        total: T | None = None
        done = 0
        self._n_passes += 1
        what = "Reading" if self._n_passes == 1 else f"Reading, pass {self._n_passes}"  # nobody knows whether there is another
        shown = show_progress(self._progress) if report is silent else nullcontext(report)
        # After an error the traceback keeps the pass alive, and with it its open files and threads.
        with shown as bar, closing(self._reading()) as reading:
            for piece, rows in reading:
                if rows.weights.any():
                    with self._errors_at(piece):
                        sums = rows.gather(pass_)
                    total = sums if total is None else total + sums
                done += rows.n_rows
                bar(what, done, self.n_rows)
        if total is None:
            raise without_rows()
        return total

    @contextmanager
    def _errors_at(self, piece: P | None) -> Iterator[None]:
        """Add the place of the piece, or of all data, to errors about its rows."""
        try:
            yield
        except InputError as error:
            raise self.place(error, piece) from None
