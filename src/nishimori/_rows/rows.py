"""What rows are: data that can be read again and again, and summed.

Everything that nishimori fits or measures asks `Rows` for the sum of a pass, and for nothing else. So a new kind of data is one
class: it says how many classes there are and yields batches, and every fit and metric works on it.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any, Protocol, Self, TypeVar

from nishimori._rows.batch import Batch, Clusters, Groups
from nishimori._support.arrays import is_array
from nishimori._support.progress import Report, silent
from nishimori.errors import InputError, NoRowsError, setting


class Sum(Protocol):
    """Something that adds."""

    def __add__(self, other: Self) -> Self: ...


T = TypeVar("T", bound=Sum)
R = TypeVar("R")
Steps = tuple[Callable[[Any], Any], ...]


class Rows(Protocol):
    """Rows that can be read again and again. Subclass it to inherit `gather` and `sample`."""

    is_remote: bool = False
    """Whether sums travel to another machine before they are used, so that a search must not ask for numbers per row."""

    clusters: Clusters | None = None
    """Which rows are not independent; None if all are."""

    groups: Groups | None = None
    """Which group each row belongs to, if that was said."""

    floor: float | None = None
    """The lowest probability, to which smaller ones are raised; None if only exact zeros are."""

    kind: str = "Rows object"
    """What messages call it."""

    counts: bool = False
    """Whether a weight of w stands for w independent samples, for standard errors."""

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

    def sums_at_once(self, pass_: Callable[[Batch], Any]) -> bool:  # noqa: ARG002 - for those that can
        """Whether the sum of ``pass_`` over all rows takes one call, and is therefore much faster than any other."""
        return False

    def reduce_sums(self, pass_: Callable[[Batch], Any], steps: Steps, report: Report = silent) -> Any:
        """What ``steps``, one after the other, make of the sum of ``pass_``. The sum need not travel: they run where it is."""
        return run_steps(steps, self.gather(pass_, report))

    def call_with_rows(self, function: "Callable[[Rows], R]") -> R:
        """What ``function`` makes of these rows, computed where they are if they are all in one place."""
        return function(self)

    def sample(self, size: int) -> "Rows | None":  # noqa: ARG002 - for those that can
        """A random ``size`` of the rows, the same ones each time, or None where that would take a reading."""
        return None

    def every(self, step: int) -> "Rows | None":  # noqa: ARG002 - for those that can
        """Every ``step``-th row without a copy of any logit, or None where that cannot be had."""
        return None

    def with_floor(self, floor: float) -> "Rows | None":  # noqa: ARG002 - for those that can
        """Rows whose probabilities below ``floor`` are raised to it, or None where that cannot be had."""
        return None


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


def run_steps(steps: Steps, value: Any) -> Any:
    """What some functions, one after the other, make of a value."""
    for step in steps:
        value = step(value)  # the value before, which may be large, is not kept
    return value


def reduce_sums(data: Any, pass_: Callable[[Batch], Any], steps: Steps, report: Report = silent) -> Any:
    """The result of ``steps`` from the sum of a pass, also for rows that have no method `Rows.reduce_sums`."""
    own = getattr(data, "reduce_sums", None)
    return run_steps(steps, data.gather(pass_, report)) if own is None else own(pass_, steps, report)


def call_with_rows(data: Any, function: Callable[[Rows], R]) -> R:
    """The result of ``function`` for all rows, also for rows that have no method `Rows.call_with_rows`."""
    own = getattr(data, "call_with_rows", None)
    found: R = function(data) if own is None else own(function)
    return found


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


def counts_in(data: Any, options: Mapping[str, Any] | None = None) -> bool:
    """Whether weights are counts of independent samples: that rows were made so, or what is said where they are used.

    Rows of somebody's own need not say, and sketches cannot.
    """
    return bool(getattr(data, "counts", False)) or bool(options and options.get("counts"))


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


def sums_at_once(data: Any, pass_: Callable[[Batch], Any]) -> bool:
    """`Rows.sums_at_once`, also of rows of somebody's own, which need not have it."""
    own = getattr(data, "sums_at_once", None)
    return own is not None and own(pass_)


def reads_unchecked(pass_: Callable[[Batch], Any], batch: Batch) -> bool:
    """Whether a pass takes rows that were not checked, by its method `of_unchecked`, which returns None if a check is due."""
    decide = getattr(pass_, "reads_unchecked", None)
    return decide is not None and decide(batch)


def is_rows(value: Any) -> bool:
    """Whether ``value`` is `Rows`, or has its methods, and not an array or a list."""
    return all(_has(value, name) for name in ("gather", "n_classes", "n_rows", "sample"))


def _has(value: Any, name: str) -> bool:
    """Whether ``value`` has an attribute, without computing it, which may take a reading."""
    return hasattr(type(value), name) or name in getattr(value, "__dict__", ())


class Reported(Rows):
    """Rows whose passes are counted and shown."""

    def __init__(self, inner: Rows, what: str, report: Report) -> None:
        self._inner = inner
        self._what = what
        self._report = report
        self._readings = 0

    @property
    def n_classes(self) -> int:
        return self._inner.n_classes

    @property
    def n_rows(self) -> int | None:
        return self._inner.n_rows

    @property
    def is_remote(self) -> bool:  # type: ignore[override]
        return getattr(self._inner, "is_remote", False)

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

    def __iter__(self) -> Iterator[Batch]:
        return iter(self._inner)

    def gather(self, pass_: Callable[[Batch], T], report: Report = silent) -> T:
        """The sum of ``pass_`` over all rows, told to both reports."""
        return self._inner.gather(pass_, self._both(report))

    def reduce_sums(self, pass_: Callable[[Batch], Any], steps: Steps, report: Report = silent) -> Any:
        """The result of ``steps`` from the sum of ``pass_``; the reading is told to both reports."""
        return reduce_sums(self._inner, pass_, steps, self._both(report))

    def sums_at_once(self, pass_: Callable[[Batch], Any]) -> bool:
        """As of the rows inside."""
        return sums_at_once(self._inner, pass_)

    def _both(self, report: Report) -> Report:
        """What tells both reports about the next reading."""
        self._readings += 1
        what = f"{self._what}, pass {self._readings}"

        def report_to_both(step: str, done: int, total: int | None) -> None:
            self._report(what, done, total)
            report(step, done, total)

        return report_to_both

    def sample(self, size: int) -> Rows | None:
        """A sample of the rows inside; its reading is too short to show."""
        return self._inner.sample(size)

    def every(self, step: int) -> Rows | None:
        """Every ``step``-th row of those inside; its reading is too short to show."""
        return self._inner.every(step)

    def with_floor(self, floor: float) -> "Rows | None":
        """The rows inside with a floor, shown in the same way; None where that cannot be had."""
        inner = self._inner.with_floor(floor)
        if inner is None:
            return None
        made = copy(self)
        made._inner = inner
        return made
