"""Observables: a temperature is matched so that an observable's mean under the model equals its mean under the labels.

An observable O(k; z) has, for each row, a value at the true class (`observed`), and under p(k) ∝ exp(βz_k) an average whose
derivative in β is Cov(O, z). Their difference is the row's `gap`. Both are counted from the value at the top class: a good
classifier is there most of the time, so the sums stay small and keep their digits.

A new observable is a subclass with the one method `values`, from which both follow. The built-in ones compute them without a
table of values, and without differences of nearly equal numbers; their mean is known to grow with β.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nishimori._kernels.kernel import row_sums
from nishimori._rows.batch import Batch
from nishimori._sums.predictions import Predictions, derivatives
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray
from nishimori._support.numbers import numeric
from nishimori.errors import InputError, setting


class Gap(NamedTuple):
    """For each row, the model's average minus the value at the true class, with derivatives and rounding."""

    value: Array
    size: Array  # rounding moves the value by a few units in the last place of this
    slope: Array  # of the average, in β
    curvature: Array
    jerk: Array  # the third derivative
    snap: Array  # the fourth


CHECK_CLASS_ORDER = "Check that the labels and the columns of the logits use the same class order."
"""A likely mistake if scores come from elsewhere."""
_MORE_DATA = "Use a larger validation set"

# No network's logits differ by this much; those of soft masks do.
_FAR_BELOW = 1e4


def read_only_logits(batch: Batch) -> HostArray:
    """The logits of a batch in float64 as a read-only NumPy array, because the batch is shared."""
    host = arrays.on_host(batch.double).view()
    host.flags.writeable = False
    return host


def table_from(name: str, function: Callable[..., Any], *arguments: Any, shape: tuple[int, ...]) -> HostArray:
    """The table of numbers that a user's function returns, in float64; refuses other shapes."""
    try:
        values = function(*arguments)
    except Exception as error:
        raise InputError(f"`{name}` raised {type(error).__name__}: {str(error).rstrip('.')}.") from error
    table = arrays.on_host(numeric(values, name)).astype(np.float64)
    if table.shape != shape:
        like_logits = f"the shape of `logits`, {shape}"
        wanted = like_logits if len(shape) == 2 else f"shape {shape}, one number per row, class and parameter"
        raise InputError(name, f"return an array of {wanted}", got=table.shape)
    return table


class Observable(ABC):
    """A quantity whose mean under the model is made equal to its mean under the labels.

    Subclass it and write `values`. The mean under the model must grow as T falls; that is checked on the data.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> class TopLogit(nishimori.Observable):
    ...     def values(self, logits):
    ...         return np.where(logits == logits.max(axis=1, keepdims=True), logits, 0.0)
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * np.abs(rng.normal(size=(2000, 5)))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> round(nishimori.calibrators.Matched(TopLogit(), input="logits").fit(logits, labels).temperature_, 1)
    2.0
    """

    _is_monotone: ClassVar[bool] = False  # whether its mean is known to grow with β for all data

    @abstractmethod
    def values(self, logits: Any) -> Any:
        """The observable of each class in each row.

        Parameters
        ----------
        logits : array of shape (n, n_classes)
            Float64, as a NumPy array whatever library the data come from; -inf where a class is masked. It is read-only.

        Returns
        -------
        array of shape (n, n_classes)
            Finite wherever the class is not masked.
        """

    def _on(self, batch: Batch) -> "RowObservable":
        """The observable, ready for one batch: its values are computed and checked once."""
        name, host = f"{type(self).__name__}.values", read_only_logits(batch)
        table = table_from(name, self.values, host, shape=host.shape)
        if not (np.isfinite(table) | (host == -inf)).all():
            raise InputError(name, "be finite wherever the logit is", got="NaN or infinity")
        if not np.isfinite(table[np.arange(len(host)), arrays.on_host(batch.labels)]).all():
            raise InputError(
                name,
                "be finite at the true class of each row",
                remedy="If that class is masked, return the value that counts there.",
            )
        return _Tabulated(arrays.on_device_of(table, batch.double))

    def _cold(self, n_samples: int, observed: float, limit: float) -> tuple[str, str]:
        """Why no temperature fits if the mean stays at or below ``observed`` down to T → 0, where it is ``limit``."""
        return (
            f"the mean of {type(self).__name__} under the model stays below its mean under the labels down to T → 0, where it "
            f"is still {observed - limit:.4g} too small.",
            f"{_MORE_DATA}, or check the observable.",
        )

    def _hot(self, n_samples: int, observed: float, limit: float) -> tuple[str, str]:
        """Why no temperature fits if the mean stays at or above ``observed`` up to T → ∞, where it is ``limit``."""
        return (
            f"the mean of {type(self).__name__} under the model stays above its mean under the labels up to T → ∞, where it is "
            f"still {limit - observed:.4g} too large.",
            CHECK_CLASS_ORDER,
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._attributes().items())})"

    def __eq__(self, other: object) -> bool:
        if self is other or type(self) is not type(other):
            return self is other
        mine, theirs = self._attributes(), other._attributes()
        return mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        return hash(type(self))  # attributes may be arrays, which have no hash

    def _attributes(self) -> dict[str, Any]:
        """The attributes that distinguish it from others of its class, including slots."""
        state = self.__getstate__()
        parts = state if isinstance(state, tuple) else (state,)
        return {name: value for part in parts if part for name, value in part.items()}


class RowObservable(ABC):
    """An observable of the rows of a batch. ``uses_tables`` if it needs a number per class, else power sums are enough.

    ``powers`` is the highest power of the drop that `value` needs.
    """

    uses_tables: ClassVar[bool] = False
    powers: ClassVar[int] = 0

    @abstractmethod
    def observed(self, predictions: Predictions) -> Array:
        """O at the true class of each row, minus O at the top: the same at every β."""

    @abstractmethod
    def gap(self, predictions: Predictions, observed: Array) -> Gap:
        """The average of O under the model, minus O at the true class, which is ``observed``."""

    def value(self, predictions: Predictions, observed: Array) -> Array:
        """The value of the gap, without its derivatives."""
        return self.gap(predictions, observed).value


@dataclass(frozen=True, eq=False)
class _Tabulated(RowObservable):
    """Any observable, from its values at each class of each row of a batch."""

    table: Array
    uses_tables: ClassVar[bool] = True

    def observed(self, predictions: Predictions) -> Array:
        batch = predictions.batch
        return batch.at(self.table, batch.labels) - batch.at(self.table, batch.top)

    def gap(self, predictions: Predictions, observed: Array) -> Gap:
        batch, p = predictions.batch, predictions.class_probabilities
        top = batch.at(self.table, batch.top)
        table = self.table - top[:, None]
        if batch.live is not None:
            table = batch.xp.where(batch.live, table, batch.xp.zeros_like(table))
        mean = predictions.over_classes(p * table)
        drop = batch.drops - predictions.over_classes(p * batch.drops)[:, None]
        product = p * (table - mean[:, None]) * drop  # centred first: a difference of large means would lose digits
        # Only the subtraction of the top value rounds in units of it, while the averages need an exponential.
        size = sum(batch.xp.abs(numbers) for numbers in (mean, observed, top / 32))
        # Both O and d are counted from their means here, so that ⟨O⟩ and ⟨d⟩ are zero.
        averages = [predictions.over_classes(product * drop**j) for j in range(4)]
        moments = [predictions.over_classes(p * drop**j) for j in range(2, 5)]
        nothing = batch.xp.zeros_like(mean)
        return Gap(mean - observed, size, *derivatives([nothing, *averages], [nothing, *moments]))


class _Exact(Observable, RowObservable):
    """A built-in observable, which needs no table: its mean grows with β for all data."""

    _is_monotone: ClassVar[bool] = True

    def _on(self, batch: Batch) -> RowObservable:
        """Return the observable itself: it needs no table."""
        return self


@dataclass(frozen=True)
class TopN(_Exact):
    """O = 1 if the class is among the N largest of its row, ties broken by the first: top-N expectation consistency."""

    n: int

    def values(self, logits: Any) -> Any:
        """1 for the N largest, 0 elsewhere."""
        xp = arrays.namespace(logits)
        order = xp.argsort(xp.argsort(-logits, axis=1, stable=True), axis=1)
        return xp.astype((order < self.n) & (logits > -inf), logits.dtype)

    def observed(self, predictions: Predictions) -> Array:
        """0 where the true class is among the N largest, else -1; a masked class never is."""
        batch = predictions.batch
        xp, table = batch.xp, batch.passed
        label = batch.at(table, batch.labels)[:, None]
        columns = arrays.on_device_of(np.arange(table.shape[1]), table)[None, :]
        ahead = (table > label) | ((table == label) & (columns < batch.labels[:, None]))
        rank = xp.sum(xp.astype(ahead, xp.int64), axis=1)
        hit = (rank < self.n) & (predictions.label_drops > -inf)
        return xp.astype(hit, batch.weights.dtype) - 1

    def gap(self, predictions: Predictions, observed: Array) -> Gap:
        """Minus the probability of the other classes where the answer is among the N largest, else the probability of those."""
        xp = predictions.batch.xp
        # Sums over the classes outside, as they are: all may be tiny.
        outside = row_sums(predictions.batch, (predictions.beta,), 4, self.n).at(predictions.beta)
        averages = [outside[j, ...] * predictions.top_probability for j in range(5)]
        inside = (1 + (predictions.rest - outside[0, ...])) * predictions.top_probability
        value = xp.where(observed == 0, -averages[0], inside)
        return Gap(value, xp.abs(value), *(-derivative for derivative in derivatives(averages, predictions.moments)))

    def value(self, predictions: Predictions, observed: Array) -> Array:
        """The value of the gap, from the weights of the other classes alone."""
        outside = row_sums(predictions.batch, (predictions.beta,), 0, self.n).at(predictions.beta)[0, ...]
        return predictions.batch.xp.where(
            observed == 0,
            -outside * predictions.top_probability,
            (1 + (predictions.rest - outside)) * predictions.top_probability,
        )

    def _cold(self, n_samples: int, observed: float, limit: float) -> tuple[str, str]:
        """Why no temperature fits as T → 0: all samples are right, or largest logits are equal."""
        confidence, accuracy = self._names
        what = "correctly" if self.n == 1 else f"within their top {self.n}"
        if observed >= 0:
            samples = "the only sample is" if n_samples == 1 else f"all {n_samples} samples are"
            smaller = "." if self.n == 1 else f", or a smaller {setting('top_n')}."
            return (
                f"{samples} classified {what}, so {confidence} could reach accuracy only at T = 0.",
                f"{_MORE_DATA}{smaller}",
            )
        return (
            f"{accuracy} {1 + observed:.4g} is not below {1 + limit:.4g}, which {confidence} approaches as T → 0: "
            "equal largest logits share their probability at every temperature.",
            "Pass logits before they were rounded or quantised.",
        )

    def _hot(self, n_samples: int, observed: float, limit: float) -> tuple[str, str]:
        """Why no temperature fits as T → ∞: the accuracy is no better than chance."""
        confidence, accuracy = self._names
        why = f"is not above chance ({1 + limit:.4g}), and {confidence} stays above chance at every T."
        return f"{accuracy} {1 + observed:.4g} {why}", CHECK_CLASS_ORDER

    @property
    def _names(self) -> tuple[str, str]:
        """The names of the two means in sentences."""
        return (
            ("mean confidence", "accuracy") if self.n == 1 else (f"the mean top-{self.n} probability", f"top-{self.n} accuracy")
        )


@dataclass(frozen=True)
class Confidence(TopN):
    """O = 1 for the predicted class: expectation consistency. `TopN` of one, without the search for the largest."""

    n: int = field(default=1, init=False, repr=False)

    def observed(self, predictions: Predictions) -> Array:
        """0 where the prediction is right, else -1."""
        return predictions.batch.xp.astype(predictions.right, predictions.batch.weights.dtype) - 1

    def gap(self, predictions: Predictions, observed: Array) -> Gap:
        """Confidence minus 1 where the prediction is right, confidence where it is wrong."""
        xp, value = predictions.batch.xp, self.value(predictions, observed)
        nothing = xp.zeros_like(predictions.top_probability)  # the only class that counts has no drop
        return Gap(value, xp.abs(value), *derivatives((predictions.top_probability, *[nothing] * 4), predictions.moments))

    def value(self, predictions: Predictions, observed: Array) -> Array:
        """The value of the gap, from the weights of the other classes alone."""
        return predictions.batch.xp.where(predictions.right, -predictions.doubt, predictions.top_probability)


@dataclass(frozen=True)
class Energy(_Exact):
    """O = z, the logit itself: matching it minimises the cross-entropy, so this is temperature scaling."""

    powers: ClassVar[int] = 1

    def values(self, logits: Any) -> Any:
        """The logits."""
        return logits

    def observed(self, predictions: Predictions) -> Array:
        """The drop of the true class, -inf where it is masked."""
        return predictions.label_drops

    def gap(self, predictions: Predictions, observed: Array) -> Gap:
        """The mean drop minus that of the true class."""
        mean = predictions.moments[0]
        size = predictions.batch.xp.abs(mean) + predictions.batch.xp.abs(observed)
        return Gap(mean - observed, size, *derivatives(predictions.moments, predictions.moments))

    def value(self, predictions: Predictions, observed: Array) -> Array:
        """The value of the gap, from the weights of the other classes, and these times the drops."""
        return predictions.powers(1)[1, ...] * predictions.peak_probability - observed

    def _cold(self, n_samples: int, observed: float, limit: float) -> tuple[str, str]:
        """Why no temperature fits as T → 0: the true class has the largest logit in all samples."""
        samples = "the only sample" if n_samples == 1 else f"all {n_samples} samples"
        return f"the true class has the largest logit in {samples}, so the loss falls all the way to T = 0.", f"{_MORE_DATA}."

    def _hot(self, n_samples: int, observed: float, limit: float) -> tuple[str, str]:
        """Why no temperature fits as T → ∞: on average the logit of the true class is not above the mean of its row."""
        masks = ""
        if limit - observed > _FAR_BELOW:
            masks = " If very negative logits, such as -1e9, mask classes, drop the samples whose true class is masked."
        return (
            f"the logit of the true class is on average {limit - observed:.4g} below the mean logit of its row, "
            "so the loss falls all the way to T = ∞: the model does no better than chance.",
            f"{CHECK_CLASS_ORDER}{masks}",
        )


# The observables behind the methods of these names.
BUILT_IN: dict[str, Observable] = {"ec": Confidence(), "ts": Energy()}
