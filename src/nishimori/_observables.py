"""What a temperature is matched to: the observable's mean under the model equals its mean under the labels.

An observable O(k; z) has, for each row, a value at the true class (`observed`), and under p(k) ∝ exp(βz_k) an average
(`expected`) whose derivative in β is Cov(O, z). Both are counted from the value at the top class: a good classifier is there
most of the time, so the sums stay small and keep their digits.

A new observable is a subclass with the one method `values`, from which both follow. The built-in ones compute them without a
table of values, and their mean is known to grow with β.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Protocol

import numpy as np

from nishimori import _array
from nishimori._array import Array
from nishimori._gibbs import Gibbs, boltzmann
from nishimori._inputs import Batch
from nishimori._scores import numeric
from nishimori.errors import InputError

Expected = tuple[Array, Array, Array]
"""For each row: an average, its slope and its curvature in β."""

_CLASS_ORDER = "Check that the labels and the columns of the logits use the same class order."
_MORE_DATA = "Use a larger validation set"


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
    >>> round(nishimori.Matched(TopLogit()).fit(logits, labels).temperature_, 1)
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

    def _on(self, batch: Batch) -> "Rows":
        """The observable, ready for one batch: its values are computed and checked once."""
        name = f"{type(self).__name__}.values"
        host = _array.on_host(batch.logits).view()
        host.flags.writeable = False  # the batch is shared
        try:
            values = self.values(host)
        except Exception as error:
            raise InputError(f"`{name}` raised {type(error).__name__}: {str(error).rstrip('.')}.") from error
        table = _array.on_host(numeric(values, name)).astype(np.float64)
        if table.shape != host.shape:
            raise InputError(f"`{name}` must return an array of the shape of `logits`, {host.shape}, got {table.shape}.")
        if not (np.isfinite(table) | (host == -inf)).all():
            raise InputError(f"`{name}` must be finite wherever the logit is, got NaN or infinity.")
        if not np.isfinite(table[np.arange(len(host)), _array.on_host(batch.labels)]).all():
            raise InputError(
                f"`{name}` must be finite at the true class of each row. If that class is masked, return the value that counts "
                "there."
            )
        return _Tabulated(_array.beside(table, batch.logits))

    def _cold(self, n_samples: int, observed: float, limit: float) -> str:
        """Why no temperature fits when the mean stays at or below ``observed`` down to T → 0, where it is ``limit``."""
        return (
            f"the mean of {type(self).__name__} under the model stays below its mean under the labels down to T → 0, where it "
            f"is still {observed - limit:.4g} too small. {_MORE_DATA}, or check the observable."
        )

    def _hot(self, n_samples: int, observed: float, limit: float) -> str:
        """Why no temperature fits when the mean stays at or above ``observed`` up to T → ∞, where it is ``limit``."""
        return (
            f"the mean of {type(self).__name__} under the model stays above its mean under the labels up to T → ∞, where it is "
            f"still {limit - observed:.4g} too large. {_CLASS_ORDER}"
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
        """What distinguishes it from others of its class, slots included."""
        state = self.__getstate__()
        parts = state if isinstance(state, tuple) else (state,)
        return {name: value for part in parts if part for name, value in part.items()}


class Rows(Protocol):
    """An observable of the rows of a batch, counted from its value at the top class."""

    def unit(self, batch: Batch) -> float:
        """The mean size of O at the top where it does not scale with the logits, else 0: its rounding limits the gap."""

    def observed(self, batch: Batch) -> Array:
        """O at the true class of each row, minus O at the top."""

    def expected(self, gibbs: Gibbs) -> Expected:
        """The average of O under the model, minus O at the top, with its first two derivatives in β."""


@dataclass(frozen=True, eq=False)
class _Tabulated:
    """Any observable, from its values at each class of each row of a batch."""

    table: Array

    def unit(self, batch: Batch) -> float:
        return batch.total(batch.xp.abs(batch.at(self.table, batch.top))) / batch.weight

    def observed(self, batch: Batch) -> Array:
        return batch.at(self.table, batch.labels) - batch.at(self.table, batch.top)

    def expected(self, gibbs: Gibbs) -> Expected:
        batch, p = gibbs.batch, gibbs.probabilities
        table = self.table - batch.at(self.table, batch.top)[:, None]
        if batch.live is not None:
            table = batch.xp.where(batch.live, table, batch.xp.zeros_like(table))
        mean = gibbs.over_classes(p * table)
        drop = batch.drops - gibbs.over_classes(p * batch.drops)[:, None]
        product = p * (table - mean[:, None]) * drop  # centred first: a difference of large means would lose digits
        return mean, gibbs.over_classes(product), gibbs.over_classes(product * drop)


@dataclass(frozen=True)
class TopN(Observable):
    """O = 1 if the class is among the N largest of its row, ties broken by the first: top-N expectation consistency."""

    n: int
    _is_monotone: ClassVar[bool] = True

    def values(self, logits: Any) -> Any:
        """1 for the N largest, 0 elsewhere."""
        xp = _array.namespace(logits)
        order = xp.argsort(xp.argsort(-logits, axis=1, stable=True), axis=1)
        return xp.astype((order < self.n) & (logits > -inf), logits.dtype)

    def _on(self, batch: Batch) -> Rows:
        """Itself: nothing has to be tabulated."""
        return self

    def unit(self, batch: Batch) -> float:
        """1: the top class counts."""
        return 1.0

    def observed(self, batch: Batch) -> Array:
        """0 where the true class is among the N largest, else -1; a masked class never is."""
        xp = batch.xp
        label = batch.at(batch.logits, batch.labels)[:, None]
        columns = _array.beside(np.arange(batch.logits.shape[1]), batch.logits)[None, :]
        ahead = (batch.logits > label) | ((batch.logits == label) & (columns < batch.labels[:, None]))
        rank = xp.sum(xp.astype(ahead, xp.int64), axis=1)
        hit = (rank < self.n) & (label[:, 0] > -inf)
        return xp.astype(hit, batch.weights.dtype) - 1

    def expected(self, gibbs: Gibbs) -> Expected:
        """The probability of the N largest, minus 1."""
        batch, xp = gibbs.batch, gibbs.batch.xp
        best = _array.largest(batch.logits, self.n)
        drops = best - batch.at(batch.logits, batch.top)[:, None]
        live = drops > -inf
        drops = xp.where(live, drops, xp.zeros_like(drops))
        weights = xp.where(live, boltzmann(drops, gibbs.beta, xp), xp.zeros_like(drops))
        mass, with_drop, with_square = (gibbs.over_classes(weights * drops**power) / gibbs.partition for power in range(3))
        return mass - 1, *gibbs.cumulants(mass, with_drop, with_square)

    def _cold(self, n_samples: int, observed: float, limit: float) -> str:
        """All right, or ties at the top."""
        what = "correctly" if self.n == 1 else f"within their top {self.n}"
        if observed >= 0:
            samples = "the only sample is" if n_samples == 1 else f"all {n_samples} samples are"
            smaller = "." if self.n == 1 else ", or a smaller `top_n`."
            return (
                f"{samples} classified {what}, so {self._confidence} could reach accuracy only at T = 0. {_MORE_DATA}{smaller}"
            )
        return (
            f"{self._accuracy} {1 + observed:.4g} is not below {1 + limit:.4g}, which {self._confidence} approaches as T → 0: "
            "equal largest logits share their probability at every temperature. "
            "Pass logits before they were rounded or quantised."
        )

    def _hot(self, n_samples: int, observed: float, limit: float) -> str:
        """No better than chance."""
        return (
            f"{self._accuracy} {1 + observed:.4g} is not above chance ({1 + limit:.4g}), "
            f"and {self._confidence} stays above chance at every T. {_CLASS_ORDER}"
        )

    @property
    def _confidence(self) -> str:
        return "mean confidence" if self.n == 1 else f"the mean top-{self.n} probability"

    @property
    def _accuracy(self) -> str:
        return "accuracy" if self.n == 1 else f"top-{self.n} accuracy"


@dataclass(frozen=True)
class Confidence(Observable):
    """O = 1 for the predicted class: expectation consistency. `TopN` of one, without the search for the largest."""

    _is_monotone: ClassVar[bool] = True

    def values(self, logits: Any) -> Any:
        """1 for the predicted class, 0 elsewhere."""
        return TopN(1).values(logits)

    def _on(self, batch: Batch) -> Rows:
        """Itself: nothing has to be tabulated."""
        return self

    def unit(self, batch: Batch) -> float:
        """1: the top class counts."""
        return 1.0

    def observed(self, batch: Batch) -> Array:
        """0 where the prediction is right, else -1."""
        return batch.xp.astype(batch.top == batch.labels, batch.weights.dtype) - 1

    def expected(self, gibbs: Gibbs) -> Expected:
        """The confidence, minus 1."""
        nothing = 0 * gibbs.top  # the only class that counts has no drop
        return gibbs.top - 1, *gibbs.cumulants(gibbs.top, nothing, nothing)

    def _cold(self, n_samples: int, observed: float, limit: float) -> str:
        """As for `TopN`."""
        return TopN(1)._cold(n_samples, observed, limit)

    def _hot(self, n_samples: int, observed: float, limit: float) -> str:
        """As for `TopN`."""
        return TopN(1)._hot(n_samples, observed, limit)


@dataclass(frozen=True)
class Energy(Observable):
    """O = z, the logit itself: matching it minimises the cross-entropy, so this is temperature scaling."""

    _is_monotone: ClassVar[bool] = True

    def values(self, logits: Any) -> Any:
        """The logits."""
        return logits

    def _on(self, batch: Batch) -> Rows:
        """Itself: nothing has to be tabulated."""
        return self

    def unit(self, batch: Batch) -> float:
        """0: O scales with the logits."""
        return 0.0

    def observed(self, batch: Batch) -> Array:
        """The drop of the true class, -inf where it is masked."""
        return batch.label_drops

    def expected(self, gibbs: Gibbs) -> Expected:
        """The mean drop."""
        return gibbs.moments[0], *gibbs.cumulants(*gibbs.moments)

    def _cold(self, n_samples: int, observed: float, limit: float) -> str:
        """All right."""
        samples = "the only sample" if n_samples == 1 else f"all {n_samples} samples"
        return f"the true class has the largest logit in {samples}, so the loss falls all the way to T = 0. {_MORE_DATA}."

    def _hot(self, n_samples: int, observed: float, limit: float) -> str:
        """No better than chance."""
        return (
            f"the logit of the true class is on average {limit - observed:.4g} below the mean logit of its row, "
            f"so the loss falls all the way to T = ∞: the model does no better than chance. {_CLASS_ORDER}"
        )


# The observables behind the methods of these names.
BUILT_IN: dict[str, Observable] = {"ec": Confidence(), "ts": Energy()}
