"""A batch: some rows of checked data, which every pass reads.

A `Batch` holds logits as they are stored, the column of each row's true class, and a positive weight per row. Rows make it,
and nothing after it checks values again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from nishimori._rows.labels import RowIndex, encode_values
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray, namespace
from nishimori.errors import InputError

# The spacing of float64 at 1.
_EPSILON = 2.0**-52

MOST_CLUSTER_SUMS = 2**27
"""The most memory that sums per cluster and bin, or per cluster and group, may take: 1 GiB."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """Which rows belong together: the number of the cluster of each row, out of ``number`` in all the data.

    ``are_images`` if they were not named: the rows are pixels, and a cluster is an image.
    """

    codes: HostArray
    number: int
    are_images: bool = False

    @property
    def are_rows(self) -> bool:
        """Whether these are all rows, and each is a cluster of its own."""
        return self.number == len(self.codes)

    def at_rows(self, rows: slice | HostArray | None) -> "Clusters":
        """The clusters of some rows."""
        return self if rows is None else replace(self, codes=self.codes[rows])


@dataclass(frozen=True, eq=False)
class Groups:
    """Which group each row belongs to: the index of its name in ``names``, the names of all groups in the data."""

    codes: HostArray
    names: tuple[Any, ...]

    @classmethod
    def from_names(cls, groups: Any, n_rows: int, row: RowIndex = int) -> "Groups":
        """The groups whose names are given row by row, as text or numbers."""
        names, codes = encode_values(groups, n_rows, "group", row)
        return cls(codes, tuple(names.tolist()))

    def at_rows(self, rows: slice | HostArray | None) -> "Groups":
        """The groups of some rows."""
        return self if rows is None else Groups(self.codes[rows], self.names)

    def present(self) -> list[Any]:
        """The names of the groups that have at least one row."""
        return [self.names[code] for code in np.unique(self.codes)]


@dataclass(frozen=True, eq=False)
class Names:
    """The distinct clusters, or groups, that some rows name, in order; adding two pools them.

    Data that are read in parts are asked for their names before all else, because sums over clusters and groups number them
    in the same way in every part.
    """

    what: str
    """What messages call one of them: "cluster" or "group"."""
    values: HostArray
    only_counted: bool
    """Whether the names of rows of weight zero are ignored."""

    @classmethod
    def of_rows(
        cls, what: str, values: Any, weights: HostArray, row: RowIndex = int, *, only_counted: bool
    ) -> tuple["Names", HostArray]:
        """The distinct names of rows, and for each row the index of its name; 0 where the name is ignored."""
        kept = np.flatnonzero(weights) if only_counted else np.arange(len(weights))
        codes = np.zeros(len(weights), dtype=np.int64)
        names, codes[kept] = encode_values(values, len(weights), what, row, kept)
        return cls(what, names, only_counted), codes

    @classmethod
    def merge(cls, parts: Sequence["Names"]) -> "Names":
        """The names of all rows of several parts of the data."""
        kinds = {part.values.dtype.kind for part in parts}  # NumPy would turn numbers beside text into text
        values = np.concatenate([part.values for part in parts], dtype=object if len(kinds) > 1 else None)
        first = parts[0]
        return cls(first.what, encode_values(values, len(values), first.what)[0], first.only_counted)

    def __add__(self, other: "Names") -> "Names":
        return self.merge([self, other])

    def codes_of(self, values: Any, weights: HostArray, remedy: str = "") -> HostArray:
        """The index of each row's name, which must be one of these; ``remedy`` says what to do if it is not."""
        return self.renumber(*self.of_rows(self.what, values, weights, only_counted=self.only_counted), remedy)

    def renumber(self, names: "Names", codes: HostArray, remedy: str = "") -> HostArray:
        """Turn indices into ``names`` into indices into these names, which must contain all of ``names``."""
        if not len(names.values):  # all rows have weight zero
            return codes
        try:
            places = np.minimum(np.searchsorted(self.values, names.values), len(self.values) - 1)
        except TypeError:  # text is not compared with numbers
            places = np.zeros(len(names.values), dtype=np.int64)
        if (strange := self.values[places] != names.values).any():
            got = f"{names.values[strange].tolist()[0]!r}, which was not there before"
            raise InputError(f"{self.what}s", "be the same in every pass", got=got, remedy=remedy)
        return places[codes]

    def with_codes(self, codes: HostArray) -> Any:
        """The `Clusters`, or `Groups`, of rows, from the index of each row's name."""
        if self.what == "cluster":
            return Clusters(codes, len(self.values))
        return Groups(codes, tuple(self.values.tolist()))


@dataclass(frozen=True)
class Batch:
    """Some checked rows: iterating over `Rows` gives batches, and a pass of your own is called with one.

    Attributes
    ----------
    logits : array of shape (n, k)
        In float32 or float64, of any array library; -inf masks a class.
    labels : array of shape (n,)
        The column of the true class of each row.
    weights : array of shape (n,)
        A positive float64 number for each row.
    clusters, groups
        Which rows are not independent, and which group each row belongs to; None if that was not said. Both have the numbers of
        all rows of the batch as ``codes``. ``clusters.number`` is how many clusters there are in all the data, and
        ``groups.names`` are the names of the groups.
    probabilities : array of shape (n, k), or None
        The probabilities whose logarithms the logits are, where probabilities were passed.
    masked : bool or None
        Whether some logit is -inf; if it is None, that is looked up when it is first needed.
    stored_rounding : float
        The relative error of probabilities as they were passed.
    stored : array of shape (n, k), or None
        The same logits in half precision, if they came so.
    predicted : array of shape (n,), or None
        The columns of the predicted classes, where the logits do not say.

    Notes
    -----
    Nothing writes into a batch: everything else here follows from these fields alone. What a kernel finds in the rows it
    returns; see `nishimori._kernels.kernel`.

    Rows that go to a kernel unchecked may have weight zero, and their weights are None if all are one.
    """

    logits: Array
    labels: Array
    weights: Array
    probabilities: Array | None = None
    masked: bool | None = None
    stored_rounding: float = 0.0
    clusters: Clusters | None = None
    groups: Groups | None = None
    stored: Array | None = None
    predicted: Array | None = None

    @property
    def n_rows(self) -> int:
        return int(self.logits.shape[0])

    @property
    def n_classes(self) -> int:
        return int(self.logits.shape[1])

    @property
    def is_claim(self) -> bool:
        """Whether each row is one claim, whose second column is what is claimed: see `claims`."""
        return False

    @property
    def has_all_classes(self) -> bool:
        """Whether each class has a column; the columns of top-k lists are places in the lists."""
        return True

    def other_sums(self, peaks: HostArray, betas: Sequence[float], order: int) -> HostArray:
        """Σ d^j exp(βd) over the classes without a column, where there are any; d is the drop from ``peaks``."""
        raise NotImplementedError

    @cached_property
    def xp(self) -> Any:
        """The array API functions of this batch's library."""
        return namespace(self.logits)

    @cached_property
    def double(self) -> Array:
        """The logits in float64; the same array if they are."""
        is_double = isinstance(self.logits, np.ndarray) and self.logits.dtype == np.float64
        return self.logits if is_double else arrays.in_double(self.logits)

    @cached_property
    def has_masks(self) -> bool:
        """Whether some class of some row is masked."""
        return bool(self.xp.any(self.logits == -inf)) if self.masked is None else self.masked

    @property
    def passed(self) -> Array:
        """The scores that decide the order of the classes: different probabilities can have the same logarithm."""
        return self.logits if self.probabilities is None else self.probabilities

    @cached_property
    def peak(self) -> Array:
        """The largest logit of each row."""
        return self.xp.max(self.logits, axis=1)

    @cached_property
    def top(self) -> Array:
        """The predicted class of each row; the first one if several are equally likely."""
        return self.xp.argmax(self.passed, axis=1) if self.predicted is None else self.predicted

    @cached_property
    def right(self) -> Array:
        """Whether the predicted class is the true one."""
        return self.top == self.labels

    @cached_property
    def drops(self) -> Array:
        """Each logit minus the largest of its row: negative or 0, and 0 where masked.

        Probabilities depend on differences alone, and differences from the top keep their digits whatever constant a row has.
        """
        drops = self.double - arrays.in_double(self.peak)[:, None]
        return drops if self.live is None else self.xp.where(self.live, drops, self.xp.zeros_like(drops))

    @cached_property
    def live(self) -> Array | None:
        """Which entries are not masked; None if all are live."""
        return self.logits > -inf if self.has_masks else None

    @cached_property
    def label_logits(self) -> Array:
        """The logit of each row's true class."""
        return self.at(self.logits, self.labels)

    @cached_property
    def label_drops(self) -> Array:
        """The drop of each row's true class: 0 if it is a top class, -inf if it is masked."""
        return arrays.in_double(self.label_logits) - arrays.in_double(self.peak)

    @cached_property
    def ones(self) -> Array:
        """A vector of ones, one per class, to sum over classes."""
        return self.xp.ones_like(self.double[0, :])

    @property
    def rounding(self) -> float:
        """Probabilities count as equal if their relative difference is smaller: the order of a sum can change them so much."""
        return max(self.stored_rounding, _EPSILON * max(16, self.n_classes / 8))

    @cached_property
    def weight(self) -> float:
        """The sum of the weights."""
        return float(self.xp.sum(self.weights))

    def with_logits(self, logits: Array, *, same_top: bool) -> "Batch":
        """A copy of the rows with other logits; ``same_top`` if the predicted classes are known to stay as they are."""
        # Rounding may make two new logits equal.
        predicted = self.top if same_top else None
        return replace(self, logits=logits, probabilities=None, stored_rounding=0.0, stored=None, predicted=predicted)

    def raised_to(self, floor: float) -> "Batch":
        """The rows with probabilities of at least ``floor``; logits stay as they are."""
        if self.probabilities is None:
            return self
        probabilities = arrays.at_least(self.probabilities, floor)
        return replace(self, logits=self.xp.log(probabilities), probabilities=probabilities)

    def at_rows(self, index: HostArray, clusters: Clusters | None) -> "Batch":
        """The rows with these numbers, repeated as often as their number is, in other clusters."""
        names = ("logits", "labels", "weights", "probabilities", "stored", "predicted")
        parts = {name: getattr(self, name) for name in names}
        selected: dict[str, Any] = {
            name: None if values is None else arrays.rows_at(values, index) for name, values in parts.items()
        }
        return replace(self, **selected, clusters=clusters, groups=None if self.groups is None else self.groups.at_rows(index))

    def at(self, table: Array, columns: Array) -> Array:
        """One entry of each row."""
        if isinstance(table, np.ndarray):
            return table[np.arange(len(table)), columns]
        return self.xp.take_along_axis(table, columns[:, None], axis=1)[:, 0]

    def total(self, rows: Array) -> float:
        """The weighted sum of one number per row."""
        return float(self.totals([rows])[0])

    def totals(self, rows: Sequence[Array], *, squared: bool = False) -> HostArray:
        """Weighted sums of several numbers per row, copied from their device together; ``squared`` squares the weights."""
        weights = self.weights**2 if squared else self.weights
        if isinstance(weights, np.ndarray):
            return np.array([np.einsum("i,i", weights, numbers) for numbers in rows])  # unlike BLAS without threads
        return arrays.on_host(self.xp.stack(list(rows)) @ weights)
