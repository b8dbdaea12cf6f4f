"""The log-probabilities of the most probable classes, as hosted language models return them.

A `TopK` keeps the caller's arrays. Values are checked when it is made, except those of rows that cannot be lists: these may be
padding, and which rows count is known only with the labels.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nishimori._rows.scores import Scores
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori._support.numbers import numeric, whole
from nishimori._support.numbers import temperature as checked_temperature
from nishimori._top_k.unlisted_mass import Tails
from nishimori.errors import InputError, setting

_SLACK = 1e-3
"""By how much a probability, or a sum of probabilities, may be too large: log-probabilities are often rounded."""

_EPS = float(np.finfo(float).eps)

# Lists whose rest is below this in every row were normalised again, if some row lists a class this many times as probable.
_RENORMALISED, _TELLING = 1e-6, 1000.0

# The sampled class is not among the most probable ones in a smaller share of rows than this.
_MOST_EXTRA = 0.9

# Larger whole numbers are not exact in float64.
_MOST_CLASSES = 2**53

# Some services return this in place of a log-probability that they do not list.
_NOT_LISTED = -9999.0


class ProbabilityBounds(NamedTuple):
    """The smallest and the largest value that each probability can have."""

    low: HostArray
    high: HostArray


@dataclass(frozen=True)
class ListedScores(Scores):
    """Scores of which only some columns are known: the last dimension is shorter than the number of classes."""

    vocabulary_size: int = 0

    @property
    def n_classes(self) -> int:
        return self.vocabulary_size


@dataclass(frozen=True, eq=False)
class ListedRows:
    """Checked rows: sorted log-probabilities (n, k + 1), whose last column is that of a true class that is not listed.

    ``columns`` say where the true class of each row is, and ``is_known`` whether its log-probability is known; if it is not,
    its column holds -inf. ``n_listed`` is the number of listed classes of each row.
    """

    logs: HostArray
    columns: HostArray
    is_known: HostArray
    n_listed: HostArray
    tails: Tails


class TopK:
    """The log-probabilities of the k most probable classes of each sample, such as the tokens of a hosted language model.

    `temperatures`, `ExpectationConsistency`, `TemperatureScaling` and `evaluate` take it in place of logits. The classes that
    are not listed share the rest of the probability in a way that is not known, so that a temperature has bounds, and is given
    as a number only if the bounds are closer to each other than the standard error. Bounds hold for the log-probabilities as
    they are passed, up to the rounding of their dtype: the rest of the probability is only as exact as these are.

    Parameters
    ----------
    indices : integer array of shape (n_samples, k), or (..., k)
        Which classes are listed.
    log_probabilities : array of the shape of ``indices``
        Their natural logarithms of probability at T = 1, in any order: those of the softmax over the whole vocabulary, before
        any filter. A row that lists fewer than k classes is filled up with -inf. Rows that are only NaN or only -inf, or that
        have one index in all columns, are padding and must have weight zero or a label that is ignored.
    vocabulary_size : int
        How many classes there are, listed or not.
    label_log_probabilities : array of the shape of ``indices`` without its last dimension, optional
        The log-probability of the true class of each sample, as models return it for the tokens of a prompt; NaN where it is
        not known. Temperature scaling needs it for each sample whose true class is not listed.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> rng = np.random.default_rng(0)
    >>> logits = 4 * rng.normal(size=(2000, 50))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    >>> listed = np.argsort(-log_p, axis=1)[:, :30]
    >>> top = nishimori.TopK(listed, np.take_along_axis(log_p, listed, axis=1), vocabulary_size=50)
    >>> found = nishimori.temperatures(top, labels)
    >>> print(f"{found.ec:.3f}, from {found.ec_bounds.low:.3f} to {found.ec_bounds.high:.3f}, standard error {found.ec_se:.2f}")
    1.939, from 1.933 to 1.946, standard error 0.05
    """

    kind: ClassVar[str] = "TopK"
    """What messages call it, and by which `rows` finds who opens it."""

    def __init__(
        self, indices: Any, log_probabilities: Any, vocabulary_size: int, *, label_log_probabilities: Any = None
    ) -> None:
        logs = arrays.on_host(numeric(log_probabilities, "log_probabilities"))
        classes = arrays.on_host(numeric(indices, "indices"))
        if logs.ndim < 2:
            raise InputError(
                "log_probabilities", "have shape (n_samples, k)", got=logs.shape, remedy="For one sample pass a list."
            )
        if classes.shape != logs.shape:
            raise InputError("indices", f"have the shape of `log_probabilities`, {logs.shape}", got=classes.shape)
        if not logs.size:
            raise InputError("log_probabilities", "have at least one row and one column", got=f"shape {logs.shape}")
        k = int(logs.shape[-1])
        size = whole("vocabulary_size", vocabulary_size, 2, _MOST_CLASSES)
        if k >= size:
            raise InputError(
                "log_probabilities",
                f"list fewer classes than `vocabulary_size`, {size}",
                got=f"{k} per sample",
                remedy="If they list all classes, put them in the order of the classes and pass them as logits.",
            )
        if arrays.kind(classes) == "float" and not (classes == np.floor(classes)).all():
            raise InputError("indices", "be whole numbers, the positions of the listed classes in the vocabulary")
        leading = logs.shape[:-1] if logs.ndim > 2 else ()
        flat = logs.reshape(-1, k)
        self.scores: ListedScores = ListedScores(flat, "logits", "log_probabilities", leading=leading, vocabulary_size=size)
        self._indices = classes.reshape(-1, k)
        self._label_logs = self._per_row(label_log_probabilities)
        self._is_checked = np.zeros(len(flat), dtype=bool)
        self._check()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> HostArray:
        """Refuse: the scores of the classes that are not listed are not known."""
        raise InputError(
            "X",
            "hold a score for each class",
            got="top-k log-probabilities",
            remedy="`TopK.probabilities(temperature)` gives bounds on the probabilities of the listed classes.",
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the log-probabilities: that of the samples, and k."""
        return (*(self.scores.leading or (self.scores.n_samples,)), self.k)

    @property
    def k(self) -> int:
        """How many classes are listed per sample, at most."""
        return int(self.scores.array.shape[1])

    @property
    def vocabulary_size(self) -> int:
        """How many classes there are."""
        return self.scores.vocabulary_size

    def __repr__(self) -> str:
        labelled = "" if self._label_logs is None else ", with label_log_probabilities"
        return f"TopK(shape={self.shape}, vocabulary_size={self.vocabulary_size}{labelled})"

    def probabilities(self, temperature: float = 1.0) -> ProbabilityBounds:
        """The smallest and largest probabilities that the listed classes can have at a temperature.

        Parameters
        ----------
        temperature : float
            T, such as that of a calibrator; at 1 both are the probabilities as they were passed, up to rounding.

        Returns
        -------
        ProbabilityBounds
            A named tuple (low, high) of arrays of the shape of ``indices``, in its order. The largest entry of each row is the
            confidence. Where nothing is listed, both are 0.

        Examples
        --------
        >>> import numpy as np
        >>> import nishimori
        >>> top = nishimori.TopK([[7, 2]], np.log([[0.6, 0.2]]), vocabulary_size=1000)
        >>> low, high = top.probabilities(1.25)
        >>> print(low.round(3), high.round(3))
        [[0.326 0.135]] [[0.546 0.227]]
        """
        beta = 1 / checked_temperature(temperature)
        numbers = np.flatnonzero((self.scores.array != -np.inf).any(axis=1))
        logs = self._checked_logs(numbers)
        tails = self._tails(logs, numbers)
        peaks = logs.max(axis=1)
        weights = np.exp(beta * (logs - peaks[:, None]))
        both = []
        for levels in (tails.even_levels(), tails.concentrated_levels()):
            rest = (levels.numbers * np.exp(beta * (levels.logs - peaks))).sum(axis=0)
            probabilities = np.zeros((self.scores.n_samples, self.k))
            probabilities[numbers] = weights / (weights.sum(axis=1) + rest)[:, None]
            both.append(probabilities)
        # A weight has the rounding errors of two logarithms, and the sum of all weights has them too.
        rounding = np.zeros((self.scores.n_samples, 1))
        rounding[numbers, 0] = 4 * beta * self.rounding(numbers) + (self.k + 8) * _EPS
        low, high = np.minimum(*both) * (1 - rounding), np.maximum(*both) * (1 + rounding)
        return ProbabilityBounds(np.maximum(low, 0.0).reshape(self.shape), np.minimum(high, 1.0).reshape(self.shape))

    def rounding(self, numbers: HostArray) -> HostArray:
        """How far the log-probabilities of some rows may be from what they stand for, because of their dtype."""
        logs = self.scores.array[numbers]
        # What was computed as a logit minus the logarithm of a sum has the errors of numbers of about 1 at least.
        sizes = np.maximum(np.abs(np.where(np.isfinite(logs), logs, 0)), 1).max(axis=1)
        rounding: HostArray = np.spacing(sizes.astype(logs.dtype)).astype(np.float64) / 2
        return rounding

    def rows(self, labels: HostArray, numbers: HostArray) -> ListedRows:
        """The rows with these ``numbers``, checked, for their true classes ``labels``."""
        logs = self._checked_logs(numbers)
        indices = self._indices[numbers]
        tails = self._tails(logs, numbers)
        if not (logs[:, 1:] < logs[:, :-1]).all():
            # Of equal log-probabilities the first class counts as the prediction, as in an array of all logits.
            order = np.lexsort((indices, -logs), axis=1)
            logs, indices = np.take_along_axis(logs, order, axis=1), np.take_along_axis(indices, order, axis=1)
        is_label = (indices == labels[:, None]) & (logs > -np.inf)
        listed = is_label.any(axis=1)
        columns = np.where(listed, is_label.argmax(axis=1), self.k)
        n_listed = (logs > -np.inf).sum(axis=1)
        label_logs = np.full(len(logs), -np.inf)
        is_known = listed.copy()
        if self._label_logs is not None:
            label_logs, is_known, tails = self._with_labels(numbers, listed, logs, columns, tails)
        only = ~is_known & (tails.numbers == 1) & (tails.masses > 0)  # the true class has all that is left
        if only.any():
            label_logs, is_known = np.where(only, np.log(np.where(only, tails.masses, 1.0)), label_logs), is_known | only
            others, masses, slacks = (np.where(only, 0.0, values) for values in (tails.numbers, tails.masses, tails.slacks))
            tails = Tails(others, masses, tails.ceilings, slacks)
        return ListedRows(np.column_stack([logs, label_logs]), columns, is_known, n_listed, tails)

    def _per_row(self, values: Any) -> HostArray | None:
        """The log-probabilities of the labels, one per row."""
        if values is None:
            return None
        name = "label_log_probabilities"
        array = arrays.on_host(numeric(values, name))
        wanted = self.scores.leading or (self.scores.n_samples,)
        if array.shape != wanted:
            raise InputError(name, f"have shape {wanted}, one number per sample", got=array.shape)
        flat: HostArray = array.reshape(-1).astype(np.float64)
        return flat

    def _check(self) -> None:
        """Check all rows that can be lists, and whether they are lists of the most probable classes of a full softmax."""
        logs, indices = self.scores.array, self._indices
        is_padding = np.isnan(logs).all(axis=1) | (logs == -np.inf).all(axis=1)
        if self.k > 1:
            is_padding |= (indices == indices[:, :1]).all(axis=1)
        numbers = np.flatnonzero(~is_padding)
        if not len(numbers):
            return
        logs = self._checked_logs(numbers)
        listed = logs > -np.inf
        n_listed = listed.sum(axis=1)
        self._refuse_extra_entries(n_listed, numbers)
        masses = self._tails(logs, numbers).masses
        self._is_checked[numbers] = True
        least = np.exp(np.min(logs, axis=1, where=listed, initial=0.0))
        telling = (n_listed > 1) & (least > _TELLING * _RENORMALISED)
        if (masses <= _RENORMALISED).all() and telling.any():
            i = int(np.argmax(telling))
            raise InputError(
                "log_probabilities",
                "be those of the softmax over the whole vocabulary",
                got=(
                    f"lists that sum to 1 in every row, although {self.vocabulary_size - n_listed[i]} classes are not listed, "
                    f"such as {n_listed[i]} classes down to a probability of {least[i]:.3g}"
                ),
                row=self._row(numbers, telling),
                remedy=(
                    "They were probably normalised again after a top-k or top-p filter, and give wrong temperatures. "
                    "Pass log-probabilities from before the filter. If the other classes have probability 0, pass logits "
                    "of all classes with -inf for these."
                ),
            )

    def _refuse_extra_entries(self, n_listed: HostArray, numbers: HostArray) -> None:
        """Refuse lists of which some have one entry more than all others: the sampled or the true class, of any rank."""
        longer = n_listed == self.k
        if self.k > 1 and 0 < longer.mean() < _MOST_EXTRA and (n_listed[~longer] == self.k - 1).all():
            raise InputError(
                "log_probabilities",
                "list the most probable classes only",
                got=(f"{self.k - 1} classes in {int((~longer).sum())} rows, and {self.k} in {int(longer.sum())}, first"),
                row=self._row(numbers, longer),
                remedy=(
                    "Some services (vLLM) add the sampled or the true class to its list where it is not among the most "
                    f"probable. Replace the smallest log-probability of rows of {self.k} classes by -inf, and pass those "
                    "of true classes as `label_log_probabilities`."
                ),
            )

    def _checked_logs(self, numbers: HostArray) -> HostArray:
        """The log-probabilities of some rows, in float64, none of them above 0."""
        logs = self.scores.array[numbers].astype(np.float64)
        capped: HostArray = np.minimum(logs, 0.0)
        if self._is_checked[numbers].all():
            return capped
        self._refuse(np.isnan(logs), logs, numbers, "not be NaN", "Fill up rows that list fewer classes with -inf.")
        self._refuse(
            (logs > _SLACK) | (logs == np.inf),
            logs,
            numbers,
            "be at most 0",
            "Pass natural logarithms of probabilities that sum to 1 over the whole vocabulary.",
        )
        self._refuse(
            (logs <= _NOT_LISTED) & (logs > -np.inf),
            logs,
            numbers,
            "be the log-probabilities of listed classes",
            f"Some services return {_NOT_LISTED:.0f} for a class that they do not list: pass -inf there.",
        )
        listed = logs > -np.inf
        empty = np.logical_not(listed.any(axis=1))
        if empty.any():
            raise InputError(
                "log_probabilities",
                "list at least one class per sample",
                got="only -inf",
                row=self._row(numbers, empty),
                remedy=f"Give such samples weight zero, or a label that {setting('ignore_index')} names.",
            )
        self._check_indices(self._indices[numbers], listed, numbers)
        return capped

    def _check_indices(self, indices: HostArray, listed: HostArray, numbers: HostArray) -> None:
        outside = listed & ((indices < 0) | (indices >= self.vocabulary_size))
        if outside.any():
            index, row = int(indices[outside][0]), self._row(numbers, np.any(outside, axis=1))
            raise InputError(
                "indices",
                f"be from 0 to {self.vocabulary_size - 1}",
                got=index,
                remedy="Check `vocabulary_size`.",
                row=row,
            )
        # What is not listed gets a number of its own, which no class has.
        distinct = np.sort(np.where(listed, indices, -1 - np.arange(self.k)), axis=1)
        repeated = distinct[:, 1:] == distinct[:, :-1]
        if repeated.any():
            index, row = int(distinct[:, 1:][repeated][0]), self._row(numbers, repeated.any(axis=1))
            raise InputError("indices", "list each class at most once per sample", got=f"{index} twice", row=row)

    def _tails(self, logs: HostArray, numbers: HostArray) -> Tails:
        """What the listed classes leave."""
        listed = logs > -np.inf
        total = np.exp(logs).sum(axis=1)
        above = total > 1 + _SLACK
        if above.any():
            raise InputError(
                "log_probabilities",
                "be of probabilities that sum to at most 1",
                got=f"a sum of {total[above][0]:.6g}",
                row=self._row(numbers, above),
                remedy="If these are logits, subtract the logarithm of the sum of exponentials over the whole vocabulary.",
            )
        ceilings = np.min(logs, axis=1, where=listed, initial=0.0)
        slacks = self.rounding(numbers) * total + (self.k + 4) * _EPS
        return self._tail(1 - total, self.vocabulary_size - listed.sum(axis=1), ceilings, slacks, numbers)

    def _tail(self, masses: HostArray, others: HostArray, ceilings: HostArray, slacks: HostArray, numbers: HostArray) -> Tails:
        """Tails of ``others`` classes, none of them above exp(``ceilings``)."""
        most = others * np.exp(ceilings)
        impossible = masses > most + _SLACK
        if impossible.any():
            i = int(np.argmax(impossible))
            raise InputError(
                "log_probabilities",
                "list the most probable classes",
                got=(
                    f"{others[i]:.0f} classes that are not listed and share {masses[i]:.3g}, although none of them can be more "
                    f"probable than the last listed one, {np.exp(ceilings[i]):.3g},"
                ),
                row=self._row(numbers, impossible),
                remedy=(
                    "Check `vocabulary_size`, and that no listed class was dropped or has another temperature. Some "
                    "services (vLLM) add the sampled or the true class to the list whatever its rank: replace its "
                    "log-probability by -inf."
                ),
            )
        return Tails(others.astype(np.float64), np.clip(masses, 0.0, most), ceilings, slacks)

    def _with_labels(
        self, numbers: HostArray, listed: HostArray, logs: HostArray, columns: HostArray, tails: Tails
    ) -> tuple[HostArray, HostArray, Tails]:
        """Log-probabilities of true classes that are not listed, which true classes are known, and the tails without them."""
        assert self._label_logs is not None
        name, own_logs = "label_log_probabilities", self._label_logs[numbers]
        is_known = ~np.isnan(own_logs)
        self._refuse(is_known & ((own_logs > _SLACK) | (own_logs <= _NOT_LISTED)), own_logs, numbers, *_NO_LOG, name=name)
        tolerance = _SLACK * np.maximum(1.0, np.abs(own_logs))
        own = logs[np.arange(len(logs)), np.minimum(columns, self.k - 1)]
        different = is_known & listed & ~(np.abs(own_logs - own) <= tolerance)
        if different.any():
            i = int(np.argmax(different))
            raise InputError(
                name,
                f"be the log-probability that is listed for the true class, {own[i]:.6g}",
                got=f"{own_logs[i]:.6g}",
                row=self._row(numbers, different),
                remedy="Check that labels and log-probabilities are of the same samples.",
            )
        added = is_known & ~listed
        above = added & ~(own_logs <= tails.ceilings + tolerance)
        if above.any():
            i = int(np.argmax(above))
            raise InputError(
                name,
                f"be at most the least listed log-probability, {tails.ceilings[i]:.6g}, where the true class is not listed",
                got=f"{own_logs[i]:.6g}",
                row=self._row(numbers, above),
                remedy="Check that labels and log-probabilities are of the same samples.",
            )
        label_logs = np.where(added, np.minimum(own_logs, tails.ceilings), -np.inf)
        left = np.where(added, np.maximum(tails.masses - np.exp(label_logs), 0.0), tails.masses)
        reduced = self._tail(left, tails.numbers - added, tails.ceilings, tails.slacks, numbers)
        return label_logs, is_known | listed, reduced

    def _refuse(
        self, bad: HostArray, values: HostArray, numbers: HostArray, wanted: str, remedy: str, name: str = "log_probabilities"
    ) -> None:
        if bad.any():
            row = self._row(numbers, np.any(bad.reshape(len(bad), -1), axis=1))
            raise InputError(name, wanted, got=f"{values[bad][0]:.6g}", remedy=remedy, row=row)

    def _row(self, numbers: HostArray, bad: HostArray) -> int | tuple[int, ...]:
        """The index of the first bad row."""
        return self.scores.row(int(numbers[int(np.argmax(bad))]))


_NO_LOG = ("be between -9999 and 0", "Pass NaN where the log-probability of the true class is not known.")
