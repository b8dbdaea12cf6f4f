"""Rows: data that can be read repeatedly and summed.

Everything that nishimori fits or measures asks `Rows` for the sum of a pass, and a search for a sample to start from. So a
new kind of data is one class: it says how many classes there are and yields batches, and every fit and metric works on it.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import fields
from operator import add
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from nishimori._rows.batch import Batch, Clusters, Groups
from nishimori._rows.scores import Input, Members, ScoreRange
from nishimori._support import arrays
from nishimori._support.arrays import HostArray, is_array
from nishimori._support.progress import Report, silent
from nishimori.errors import InputError, NoRowsError, setting


class Sum(Protocol):
    """A sum that supports ``+``: subclasses are dataclasses that add field by field; None on one side gives None.

    Fields whose metadata are `combined_by` a function are combined by that, in place of addition.
    """

    def __add__(self, other: Self) -> Self:
        parts = []
        for part in fields(self):  # type: ignore[arg-type]  # of a dataclass
            mine, theirs = getattr(self, part.name), getattr(other, part.name)
            parts.append(None if mine is None or theirs is None else part.metadata.get("combine", add)(mine, theirs))
        return type(self)(*parts)


def combined_by(function: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """The metadata of a field of a `Sum` that a function combines in place of addition, such as `max`."""
    return {"combine": function}


T = TypeVar("T", bound=Sum)
R = TypeVar("R")

# A sample that is copied has at least this many rows, however large they are, and otherwise at most this many numbers: 16 MiB
# of float32.
_FEWEST_COPIED, _MOST_COPIED = 16, 2**22

# A calibrator keeps the share of each class in its file, which should stay small.
_MOST_COUNTED = 2**13


class Rows(Protocol):
    """Rows that can be read repeatedly. Subclass it to inherit `gather` and `sample`."""

    clusters: Clusters | None = None
    """Which rows are not independent; None if all are."""

    groups: Groups | None = None
    """Which group each row belongs to, if groups were passed."""

    floor: float | None = None
    """The lowest probability: smaller ones are raised to it; None if only exact zeros are raised."""

    floor_is_chosen: bool = False
    """Whether the floor was chosen for a fit, and not named by the user."""

    input: Input = "logits"
    """What the passed scores are, such as "logits"."""

    score_range: ScoreRange | None = None
    """The range of the scores read so far; None if the user said what they are."""

    kind: str = "Rows object"
    """What messages call this kind of data."""

    class_names: list[str] | None = None
    """The label of each column, if the data contain it, as tables do."""

    column_names: list[str] | None = None
    """The names of the score columns, if there is one column per class."""

    arguments: tuple[str, str | None] = ("logits", "labels")
    """The names of the data in code: the first two arguments of functions that take them."""

    ids: Any = None
    """The name of each row, if ids were requested."""

    counts: bool = False
    """Whether a weight of w stands for w independent samples, for standard errors."""

    members: Members | None = None
    """Of how many members the scores are the average, and in which dimension these were; None if nothing was averaged here."""

    is_claims: bool = False
    """Whether each row is one claim, in which nothing is predicted: see `claims`."""

    are_scores: bool = False
    """Whether a calibrator must first turn the claims into probabilities."""

    @property
    def digest(self) -> str | None:
        """The digest of the rows, see `fingerprint.RowDigest`; None if it is unknown, or before they have been read."""
        return None

    @property
    def class_weights(self) -> HostArray | None:
        """The total weight of each class; None if it is unknown, before rows are read, or for too many classes."""
        return None

    @property
    def kept(self) -> "Rows | None":
        """Evenly spaced rows that were kept while all were first read; None for rows that `sample` gives."""
        return None

    @property
    def has_clusters(self) -> bool:
        """Whether some rows are not independent. Rows are independent if each is its own cluster."""
        clusters = self.clusters
        return clusters is not None and not clusters.are_rows

    @property
    def n_clusters(self) -> int | None:
        """How many clusters the rows belong to; None if each row is independent."""
        return None if self.clusters is None else self.clusters.number

    @property
    def cluster_name(self) -> str:
        """What results call a cluster."""
        return "image" if self.clusters is not None and self.clusters.are_images else "cluster"

    @property
    def n_classes(self) -> int:
        """How many columns the logits have."""

    @property
    def n_rows(self) -> int | None:
        """How many rows there are, or None if that is not known before reading."""

    def __iter__(self) -> Iterator[Batch]:
        """Iterate over the data once. Rows with their own `gather` need not support this."""
        raise NotImplementedError

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
        """The result of ``function`` on these rows, computed where they are stored if they are all in one place."""
        return function(self)

    def sample(self, size: int) -> "Rows | None":  # noqa: ARG002 - for those that can
        """About ``size`` of the rows, the same ones each time, or None if that would take a pass.

        They are random, or evenly spaced where random ones would have to be copied. Rows that are in memory may give all of
        themselves, where less would not be worth the trouble.
        """
        return None

    def with_floor(self, floor: float | None) -> "Rows | None":  # noqa: ARG002 - for those that can
        """These rows with probabilities below ``floor`` raised to it, if it is not None; None if that is not possible."""
        return None

    def check_range(self, name: str) -> None:  # noqa: ARG002 - for those that can
        """Refuse scores that look like something else, if they are not read again; a first pass judges other rows."""
        return

    def defer_probability_check(self) -> AbstractContextManager[None]:
        """Let the next pass after the block judge the range of the scores, if a first pass would."""
        return nullcontext()

    def on_digest(self, callback: Callable[[str], None]) -> None:
        """Call ``callback`` with the digest of these rows as soon as it is known; never if there is none."""
        if (digest := self.digest) is not None:
            callback(digest)


def _check_batch(batch: Any, data: Any) -> None:
    """Refuse what a user's own rows yield in place of a batch of arrays."""
    parts = (batch.logits, batch.labels, batch.weights) if isinstance(batch, Batch) else ()
    wrong = next((part for part in parts if not is_array(part)), None if parts else batch)
    if wrong is not None:
        must = "yield objects of the class `nishimori.Batch`, whose logits, labels and weights are arrays"
        function = "a function that yields tuples or dictionaries, which `nishimori.rows` turns into batches"
        remedy = f"Write `yield nishimori.Batch(logits, labels, weights)`. Or pass {function}."
        raise InputError(f"{type(data).__name__}.__iter__", must, got=f"a {type(wrong).__name__}", remedy=remedy)


def most_copied(size: int, n_classes: int, n_numbers: int = _MOST_COPIED) -> int:
    """How many of ``size`` rows a sample can have if it copies at most this many numbers."""
    return min(size, max(_FEWEST_COPIED, n_numbers // n_classes))


def sum_by_class(labels: Any, weights: Any, n_classes: int) -> HostArray | None:
    """The total weight of each class, in the array library of ``labels``; None for too many classes to keep."""
    if n_classes > _MOST_COUNTED:
        return None
    xp = np if isinstance(labels, np.ndarray) else arrays.namespace(labels)
    sums: HostArray = arrays.on_host(xp.bincount(labels, weights, minlength=n_classes)).astype(np.float64)
    return sums


def without_rows() -> NoRowsError:
    """The error if there is nothing to sum."""
    return NoRowsError("The data", "have at least one row of positive weight", got="none")


def with_counts(data: Rows) -> Rows:
    """The rows with weights that count independent samples; clusters are refused."""
    if data.clusters is not None or data.has_clusters:
        if data.cluster_name == "image":
            got = "True for pixels, which belong to images"
            remedy = f"If pixels are independent, pass {setting('clusters', False)}."
            raise InputError("counts", "be False where samples belong together", got=got, remedy=remedy)
        raise InputError("counts", f"be False where {setting('clusters')} is given: copies of a sample belong to its cluster")
    duplicate = copy(data)
    object.__setattr__(duplicate, "counts", True)  # also of a user's own rows, whose class may be frozen
    return duplicate


def reads_unchecked(pass_: Callable[[Batch], Any], batch: Batch) -> bool:
    """Whether a pass takes rows that were not checked, by its method `of_unchecked`, which returns None if a check is due."""
    decide = getattr(pass_, "reads_unchecked", None)
    return decide is not None and decide(batch)


def is_rows(value: Any) -> bool:
    """Whether ``value`` is `Rows`, or has its methods, and not an array or a list."""
    own = getattr(value, "__dict__", ())  # to ask for an attribute might compute it, which may take a pass
    return all(hasattr(type(value), name) or name in own for name in ("gather", "n_classes", "n_rows", "sample"))


def _inside(name: str) -> Any:
    """An attribute of the wrapped rows, or the default of `Rows` if they have none."""

    def read(outside: "RowsInside") -> Any:
        if hasattr(outside.inside, name):
            return getattr(outside.inside, name)
        default = getattr(Rows, name)
        return default.__get__(outside) if isinstance(default, property) else default

    return property(read)


class RowsInside(Rows):
    """Rows that wrap other rows. A user's own rows need not have all attributes; these do."""

    n_classes, n_rows = _inside("n_classes"), _inside("n_rows")

    def __init__(self, inside: Rows) -> None:
        self.inside = inside
        self.counts = getattr(inside, "counts", False)

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.inside)

    def sample(self, size: int) -> Rows | None:
        """A sample of the wrapped rows."""
        part = self.inside.sample(size)
        return self if part is self.inside else with_all_attributes(part)


for _name in (
    *("gather", "clusters", "groups", "floor", "input", "score_range", "is_claims", "are_scores"),
    *("kind", "class_names", "column_names", "ids", "digest", "class_weights", "kept", "members"),
):
    setattr(RowsInside, _name, _inside(_name))


def with_all_attributes(data: Any) -> Any:
    """Return `Rows` as they are; wrap objects that only have their methods in a `RowsInside`.

    None stays as it is.
    """
    return data if data is None or Rows in type(data).__mro__ else RowsInside(data)


def raise_to_floor(data: Rows, floor: float, name: str) -> Rows:
    """Raise probabilities below a floor that was chosen for the data; refuses data that cannot be read again."""
    raised = data.with_floor(floor)
    if raised is None:
        must = f"be a number or None where `{name}` is a {type(data).__name__}"
        chosen = "`nishimori.temperatures(probabilities, labels, input='probabilities').floor`"
        remedy = f"Choose it on a part of the data that fits in memory: {chosen}."
        raise InputError("floor", must, got="'auto', which needs the probability of each sample, several times", remedy=remedy)
    raised.floor_is_chosen = True
    return raised


def without_chosen_floor(data: Rows) -> Rows:
    """The rows without a floor that was chosen for a fit: an uncalibrated model has none. A floor that the user named stays."""
    if not data.floor_is_chosen:
        return data
    unchanged = data.with_floor(None)
    assert unchanged is not None, "rows with a floor can have another"
    unchanged.floor_is_chosen = False
    return unchanged
