"""What rows are: data that can be read again and again, and summed.

Everything that nishimori fits or measures asks `Rows` for the sum of a pass, and for nothing else. So a new kind of data is one
class: it says how many classes there are and yields batches, and every fit and metric works on it.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any, Protocol, Self, TypeVar

from nishimori._rows.batch import Batch, Clusters, Groups
from nishimori._rows.score_range import ScoreRange
from nishimori._rows.scores import Input
from nishimori._support.arrays import is_array
from nishimori._support.progress import Report, silent
from nishimori.errors import InputError, NoRowsError, setting


class Sum(Protocol):
    """Something that adds."""

    def __add__(self, other: Self) -> Self: ...


T = TypeVar("T", bound=Sum)
R = TypeVar("R")

# A sample that is copied has at least this many rows, however large they are, and otherwise at most this many numbers: 16 MiB
# of float32.
_FEWEST_COPIED, _MOST_COPIED = 16, 2**22

# A search that is given no sample reads all rows about this many times more often.
_INSTEAD_OF_SAMPLE = 3


class Rows(Protocol):
    """Rows that can be read again and again. Subclass it to inherit `gather` and `sample`."""

    clusters: Clusters | None = None
    """Which rows are not independent; None if all are."""

    groups: Groups | None = None
    """Which group each row belongs to, if that was said."""

    floor: float | None = None
    """The lowest probability, to which smaller ones are raised; None if only exact zeros are."""

    floor_is_chosen: bool = False
    """Whether the floor was chosen for a fit, and not named by the user."""

    input: Input = "logits"
    """What the scores are that were passed."""

    score_range: ScoreRange | None = None
    """The range of the scores, as far as they have been read; None where it was said what they are."""

    kind: str = "Rows object"
    """What messages call it."""

    counts: bool = False
    """Whether a weight of w stands for w independent samples, for standard errors."""

    digest: str | None = None
    """Which rows these are, see `digest.RowDigest`; None where that is not known, or not before they have been read."""

    @property
    def n_classes(self) -> int:
        """How many columns the logits have."""

    @property
    def n_rows(self) -> int | None:
        """How many rows there are, or None where that is not known before reading."""

    def __iter__(self) -> Iterator[Batch]:
        """One reading of the data."""

    def gather(self, pass_: Callable[[Batch], T], report: Report = silent) -> T:
        """The sum of ``pass_`` over all rows; ``report`` is told how many rows have been read."""
        total: T | None = None
        done = 0
        batches = iter(self)
        try:
            for batch in batches:
                _check_batch(batch, self)
                sums = pass_(batch)
                total = sums if total is None else total + sums
                done += batch.n_rows
                report("Reading", done, self.n_rows)
        finally:
            # After an error the traceback keeps the iterator alive, and with it its open files and threads.
            close = getattr(batches, "close", None)
            if close is not None:
                close()
        if total is None:
            raise without_rows()
        return total

    def call_with_rows(self, function: "Callable[[Rows], R]") -> R:
        """What ``function`` makes of these rows, computed where they are if they are all in one place."""
        return function(self)

    def sample(self, size: int) -> "Rows | None":  # noqa: ARG002 - for those that can
        """About ``size`` of the rows, the same ones each time, or None where that would take a pass.

        They are random, or evenly spaced where random ones would have to be copied. Rows that are in memory may give all of
        themselves, where less would not be worth the trouble.
        """
        return None

    def with_floor(self, floor: float | None) -> "Rows | None":  # noqa: ARG002 - for those that can
        """Rows whose probabilities below ``floor`` are raised to it, if not None; None where that cannot be had."""
        return None

    def tell_digest(self, tell: Callable[[str], None]) -> None:
        """Call ``tell`` with the digest of these rows as soon as it is known; never where there is none."""
        if (digest := self.digest) is not None:
            tell(digest)


def _check_batch(batch: Any, data: Any) -> None:
    """Refuse what rows of somebody's own yield in place of a batch of arrays."""
    parts = (batch.logits, batch.labels, batch.weights) if isinstance(batch, Batch) else ()
    wrong = next((each for each in parts if not is_array(each)), None if parts else batch)
    if wrong is not None:
        raise InputError(
            f"{type(data).__name__}.__iter__",
            "yield objects of the class `nishimori.Batch`, whose logits, labels and weights are arrays",
            got=f"a {type(wrong).__name__}",
            remedy="Write `yield nishimori.Batch(logits, labels, weights)`. Or pass a function that yields tuples or "
            "dictionaries, of which `nishimori.rows` makes batches.",
        )


def call_with_rows(data: Any, function: Callable[[Rows], R]) -> R:
    """The result of ``function`` for all rows, also for rows that have no method `Rows.call_with_rows`."""
    own = getattr(data, "call_with_rows", None)
    found: R = function(data) if own is None else own(function)
    return found


def most_copied(size: int, n_classes: int, n_numbers: int = _MOST_COPIED) -> int:
    """How many of ``size`` rows a sample has if at most this many numbers are to be copied."""
    return min(size, max(_FEWEST_COPIED, n_numbers // n_classes))


def without_rows() -> NoRowsError:
    """The error if there is nothing to sum."""
    return NoRowsError("The data", "have at least one row of positive weight", got="none")


def clusters_in(data: Any) -> Clusters | None:
    """Which rows are not independent; None if all are. Rows of somebody's own need not say."""
    found: Clusters | None = getattr(data, "clusters", None)
    return found


def groups_in(data: Any) -> Groups | None:
    """Which groups the rows belong to, if they say so. Rows of somebody's own need not."""
    found: Groups | None = getattr(data, "groups", None)
    return found


def floor_in(data: Any) -> float | None:
    """The lowest probability, if smaller ones are raised. Rows of somebody's own need not say."""
    found: float | None = getattr(data, "floor", None)
    return found


def input_in(data: Any) -> Input:
    """What the scores are that were passed. Rows of somebody's own need not say."""
    found: Input = getattr(data, "input", "logits")
    return found


def counts_in(data: Any, options: Mapping[str, Any] | None = None) -> bool:
    """Whether weights are counts of independent samples: that rows were made so, or what is said where they are used.

    Rows of somebody's own need not say, and sketches cannot.
    """
    return bool(getattr(data, "counts", False)) or bool(options and options.get("counts"))


def digest_in(data: Any) -> str | None:
    """Which rows these are, if that is known. Rows of somebody's own need not say, and sketches cannot."""
    found: str | None = getattr(data, "digest", None)
    return found


def tell_digest(data: Any, tell: Callable[[str], None]) -> None:
    """Call ``tell`` with the digest of ``data`` as soon as it is known, also of rows that have no such method."""
    own = getattr(data, "tell_digest", None)
    if own is not None:
        own(tell)


def has_clusters(data: Any) -> bool:
    """Whether some rows are not independent. Where each row is a cluster of its own, all of them are."""
    clusters = clusters_in(data)
    return clusters is not None and not clusters.are_rows


def refuse_counted_clusters(data: Any, *, counts: bool) -> None:
    """Raise if weights are said to be counts where rows belong together."""
    if counts and clusters_in(data) is not None:
        raise counts_of_clusters()


def counts_of_clusters() -> InputError:
    """The error if weights are counts where rows belong to clusters."""
    return InputError("counts", f"be False where {setting('clusters')} is given: copies of a sample belong to its cluster")


def reads_unchecked(pass_: Callable[[Batch], Any], batch: Batch) -> bool:
    """Whether a pass takes rows that were not checked, by its method `of_unchecked`, which returns None if a check is due."""
    decide = getattr(pass_, "reads_unchecked", None)
    return decide is not None and decide(batch)


def is_rows(value: Any) -> bool:
    """Whether ``value`` is `Rows`, or has its methods, and not an array or a list."""
    return all(_has(value, name) for name in ("gather", "n_classes", "n_rows", "sample"))


def _has(value: Any, name: str) -> bool:
    """Whether ``value`` has an attribute, without computing it, which may take a pass."""
    return hasattr(type(value), name) or name in getattr(value, "__dict__", ())


class Reported(Rows):
    """Rows whose passes are counted and shown.

    ``expected`` is about how many passes a search makes that starts from a sample; None if nobody knows, as of a stream.
    """

    def __init__(self, inner: Rows, what: str, report: Report, expected: int | None = None) -> None:
        self._inner = inner
        self._what = what
        self._report = report
        self._expected = None if inner.n_rows is None else expected
        self._readings = 0

    @property
    def n_classes(self) -> int:
        return self._inner.n_classes

    @property
    def n_rows(self) -> int | None:
        return self._inner.n_rows

    @property
    def clusters(self) -> Clusters | None:  # type: ignore[override]
        return clusters_in(self._inner)

    @property
    def groups(self) -> Groups | None:  # type: ignore[override]
        return groups_in(self._inner)

    @property
    def floor(self) -> float | None:  # type: ignore[override]
        return floor_in(self._inner)

    @property
    def counts(self) -> bool:  # type: ignore[override]
        return counts_in(self._inner)

    @property
    def input(self) -> Input:  # type: ignore[override]
        return input_in(self._inner)

    @property
    def score_range(self) -> ScoreRange | None:  # type: ignore[override]
        return getattr(self._inner, "score_range", None)

    @property
    def digest(self) -> str | None:  # type: ignore[override]
        return digest_in(self._inner)

    def tell_digest(self, tell: Callable[[str], None]) -> None:
        """Call ``tell`` with the digest of the rows inside as soon as it is known."""
        tell_digest(self._inner, tell)

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._inner)

    def gather(self, pass_: Callable[[Batch], T], report: Report = silent) -> T:
        """The sum of ``pass_`` over all rows, told to both reports."""
        return self._inner.gather(pass_, self._both(report))

    def _both(self, report: Report) -> Report:
        """What tells both reports about the next pass."""
        self._readings += 1
        what = f"{self._what}, pass {self._readings}"
        if self._expected is not None and self._readings <= self._expected:
            what += f" of about {self._expected}"
        self._report(what, 0, self.n_rows)

        def report_to_both(step: str, done: int, total: int | None) -> None:
            self._report(what, done, total)
            report(step, done, total)

        return report_to_both

    def sample(self, size: int) -> Rows | None:
        """A sample of the rows inside, whose reading is too short to show unless it has all of them."""
        part = self._inner.sample(size)
        if part is None and self._expected is not None and not self._readings:
            self._expected += _INSTEAD_OF_SAMPLE
        return self if part is self._inner else part

    def with_floor(self, floor: float | None) -> "Rows | None":
        """The rows inside with a floor, shown in the same way; None where that cannot be had."""
        inner = self._inner.with_floor(floor)
        if inner is None:
            return None
        made = copy(self)
        made._inner = inner
        return made
