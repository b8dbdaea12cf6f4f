"""Some rows of checked data: what every pass looks at.

A `Batch` holds logits as they are stored, the column of each row's true class, and a positive weight per row. Rows make it,
and nothing after it checks values again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

import numpy as np

from nishimori._kernels.block import RowsNearBeta
from nishimori._kernels.kernel import Kernel, kernel_for
from nishimori._rows.labels import RowIndex, coded, row_index
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray, namespace

# The spacing of float64 at 1.
_EPSILON = 2.0**-52

# Float32 holds this β and its inverse, and what they are multiplied with, with all their digits.
_LEAST_SINGLE = 1e-15


class AnswerSums(NamedTuple):
    """Sums over the rows whose top class is true, or not: of their weights and of the squares. How many are right or masked."""

    right: float
    wrong: float
    right_squares: float
    wrong_squares: float
    n_right: float
    n_at_masks: float


class Counted(NamedTuple):
    """What a kernel counts in rows that were not checked before: those of positive weight, and what is in them.

    A kernel that does not tell bad rows from masks counts only where there are neither.

    ``chance`` is the weight of random guesses that are right. ``n_bad`` is the number of rows with NaN, +inf, no class at all,
    or a label that is not the number of a class.
    """

    n_rows: float
    n_masked: float
    chance: float
    n_bad: float


N_SUMS = 34
"""How many sums a pair of observables has: see `pair_sums`. A kernel that gives them adds `AnswerSums`, perhaps `Counted`."""

_N_WITH_ANSWERS = N_SUMS + len(AnswerSums._fields)


MOST_CLUSTER_SUMS = 2**27
"""Sums per cluster and bin or group that are in memory at most: 1 GiB."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """Which rows belong together: the number of the cluster of each row, out of ``number`` in all the data."""

    codes: HostArray
    number: int

    @property
    def are_rows(self) -> bool:
        """Whether these are all rows, and each is a cluster of its own."""
        return self.number == len(self.codes)

    def of(self, rows: slice | HostArray | None) -> "Clusters":
        """Those of some rows."""
        return self if rows is None else Clusters(self.codes[rows], self.number)


@dataclass(frozen=True, eq=False)
class Groups:
    """Which group each row belongs to: the place of its name among ``names``, which are those of all the data."""

    codes: HostArray
    names: tuple[Any, ...]

    @classmethod
    def coded(cls, groups: Any, n_rows: int, row: RowIndex = row_index) -> "Groups":
        """From the name of the group of each row: text or numbers."""
        names, codes = coded(groups, n_rows, "group", row)
        return cls(codes, tuple(names.tolist()))

    def of(self, rows: slice | HostArray | None) -> "Groups":
        """Those of some rows."""
        return self if rows is None else Groups(self.codes[rows], self.names)

    def present(self) -> list[Any]:
        """The names of the groups that some row belongs to."""
        return [self.names[code] for code in np.unique(self.codes)]


@dataclass(frozen=True)
class Batch:
    """Some rows: float32 or float64 logits (n, k), the true column of each, and a positive float64 weight for each.

    ``given`` are the probabilities whose logarithms the logits are, where probabilities were passed. ``masked`` says whether
    some logit is -inf; if it is None, that is looked up when it is first needed. ``stored_rounding`` is the relative error of
    probabilities as they were passed. ``kernel`` computes power sums; if it is None, the usual one for such arrays.
    ``clusters`` say which rows are not independent, if that was said, and ``groups`` which group each row belongs to.
    ``stored`` are the same logits in half precision, as they came, where the kernel takes those.

    Rows that go to a kernel unchecked may have weight zero, and their weights are None if all are one.
    """

    logits: Array
    labels: Array
    weights: Array
    given: Array | None = None
    masked: bool | None = None
    stored_rounding: float = 0.0
    kernel: Kernel | None = None
    clusters: Clusters | None = None
    groups: Groups | None = None
    stored: Array | None = None

    @property
    def n_rows(self) -> int:
        return int(self.logits.shape[0])

    @property
    def n_classes(self) -> int:
        return int(self.logits.shape[1])

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
    def chosen_kernel(self) -> Kernel:
        """What computes power sums."""
        return self.kernel or kernel_for(self.logits)

    @property
    def kernel_name(self) -> str:
        """Which kernel computes power sums."""
        return self.chosen_kernel.name

    def power_sums(self, betas: Sequence[float], order: int, top_n: int = 1, *, exact: bool = True) -> Array:
        """Σ d^j exp(βd) over the classes outside the ``top_n`` largest, (n_betas, order + 1, n), in float64.

        With ``exact`` they are computed in float64, else in the precision of the logits. Those of `stored` logits always are.
        """
        if self.stored is not None and top_n == 1:
            logits = self.stored
        else:
            logits = self.double if self._in_double(betas, exact) else self.logits
        found = self.chosen_kernel.power_sums(logits, betas, order, top_n)
        # What the kernel had to find anyway is not looked for again.
        self.__dict__.setdefault("peak", found.peak)
        if self.given is None:
            if found.top is not None:
                self.__dict__.setdefault("top", found.top)
            self.__dict__.setdefault("right", self._is_right(found.top))
        return found.sums

    def rests(self, betas: Sequence[float]) -> list[Array]:
        """Σ exp(βd) over the classes outside the largest, for each β, in float64. None is computed twice, and all at once."""
        known: dict[float, Array] = self.__dict__.setdefault("_rests", {})
        new = [beta for beta in dict.fromkeys(betas) if beta not in known]
        if new:
            sums = self.power_sums(new, 0)
            known.update({beta: sums[i, 0, ...] for i, beta in enumerate(new)})
        return [known[beta] for beta in betas]

    def block_sums(self, beta_ec: float, beta_ts: float, *, exact: bool) -> HostArray | None:
        """The sums of a pair of observables, where the kernel can do without a number per row; see `pair_sums`."""
        if self.given is not None:
            return None
        exact = self._in_double((beta_ec, beta_ts), exact)
        logits = self.logits if self.stored is None else self.stored
        found = self.chosen_kernel.block_sums(logits, self.labels, self.weights, beta_ec, beta_ts, exact=exact)
        if found is None:
            return None
        self.__dict__["answers"] = AnswerSums(*found[N_SUMS:_N_WITH_ANSWERS].tolist())
        if len(found) > _N_WITH_ANSWERS:
            self.__dict__["_counted"] = Counted(*found[_N_WITH_ANSWERS:].tolist())
        return found[:N_SUMS]

    def expanded(self, beta: float, *, exact: bool) -> RowsNearBeta | None:
        """Rows as functions of β, where the kernel can do that by itself; see `_fit.expansion`."""
        kernel = self.chosen_kernel
        if kernel.expand is None or self.given is not None:
            return None
        logits = self.logits if self.stored is None else self.stored
        found = kernel.expand(logits, self.labels, self.weights, beta, exact=self._in_double((beta,), exact))
        self.__dict__.update(right=found.right, label_drops=found.label_drops)
        if found.is_usual:
            n_rows = int(np.count_nonzero(self.weights))  # a kernel that expands rows is given arrays of NumPy
            self.__dict__["_counted"] = Counted(n_rows, 0, self.weight / self.n_classes, 0)
        return found

    @property
    def counted(self) -> Counted | None:
        """What the kernel has counted on its way; None before it has, and for kernels that count nothing."""
        return self.__dict__.get("_counted")

    @staticmethod
    def _in_double(betas: Sequence[float], exact: bool) -> bool:
        return exact or not all(_LEAST_SINGLE < beta < 1 / _LEAST_SINGLE for beta in betas)

    def _is_right(self, top: Array | None) -> Array:
        return self._label_logits == self.peak if top is None else top == self.labels

    @cached_property
    def has_masks(self) -> bool:
        """Whether some class of some row is masked."""
        return bool(self.xp.any(self.logits == -inf)) if self.masked is None else self.masked

    @property
    def passed(self) -> Array:
        """What the order of the classes is taken from: different probabilities can have the same logarithm."""
        return self.logits if self.given is None else self.given

    @cached_property
    def peak(self) -> Array:
        """The largest logit of each row."""
        return self.xp.max(self.logits, axis=1)

    @cached_property
    def top(self) -> Array:
        """The predicted class of each row; of equal maxima the first."""
        return self.xp.argmax(self.passed, axis=1)

    @cached_property
    def right(self) -> Array:
        """Whether the predicted class is the true one."""
        return self.top == self.labels

    @cached_property
    def answers(self) -> AnswerSums:
        """What the labels say about the top classes."""
        return self.answers_of(self.right)

    def answers_of(self, right: Array) -> AnswerSums:
        """The same where other classes than the top one count as right."""
        xp = self.xp
        flags = xp.astype(right, self.weights.dtype)
        sums = self.totals([flags, 1 - flags, self.weights * flags, self.weights * (1 - flags)])
        n_at_masks = float(xp.sum(xp.astype(xp.isinf(self.label_drops), flags.dtype))) if self.has_masks else 0.0
        right_weight, wrong, right_squares, wrong_squares = sums.tolist()
        return AnswerSums(right_weight, wrong, right_squares, wrong_squares, float(xp.sum(flags)), n_at_masks)

    @cached_property
    def drops(self) -> Array:
        """How far each logit lies below the maximum of its row: 0 at the top, 0 where masked, else negative or 0.

        Probabilities depend on differences alone, and differences from the top keep their digits whatever constant a row has.
        """
        drops = self.double - arrays.in_double(self.peak)[:, None]
        return drops if self.live is None else self.xp.where(self.live, drops, self.xp.zeros_like(drops))

    @cached_property
    def live(self) -> Array | None:
        """Which entries are not masked; None if all are live."""
        return self.logits > -inf if self.has_masks else None

    @cached_property
    def _label_logits(self) -> Array:
        return self.at(self.logits, self.labels)

    @cached_property
    def label_drops(self) -> Array:
        """The drop of each row's true class: 0 if it is a top class, -inf if it is masked."""
        return arrays.in_double(self._label_logits) - arrays.in_double(self.peak)

    @cached_property
    def ones(self) -> Array:
        """A one for each class, to sum over classes with."""
        return self.xp.ones_like(self.double[0, :])

    @property
    def rounding(self) -> float:
        """Probabilities that differ by less than this relative amount count as equal: the order of a sum can change so much."""
        return max(self.stored_rounding, _EPSILON * max(16, self.n_classes / 8))

    @cached_property
    def weight(self) -> float:
        """The sum of the weights."""
        return float(self.xp.sum(self.weights))

    def with_logits(self, logits: Array, *, same_top: bool) -> "Batch":
        """The same rows with other logits; ``same_top`` if the predicted classes are known to stay as they are."""
        found = replace(self, logits=logits, given=None, stored_rounding=0.0, stored=None)
        if same_top:  # rounding may make two new logits equal
            found.__dict__.update(top=self.top, right=self.right)
        return found

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
            return np.array([np.einsum("i,i", weights, each) for each in rows])  # unlike BLAS without threads
        return arrays.on_host(self.xp.stack(list(rows)) @ weights)
