"""Define a metric: its name and direction, and how to compute it and its standard error from predictions."""

from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields, is_dataclass
from functools import cached_property, partial
from math import inf, isfinite, isnan, nan
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from nishimori._evaluation.limits import FEW, limits_of_share, one_sided
from nishimori._evaluation.resampling import KeptRows, Resampling
from nishimori._rows.batch import Batch
from nishimori._rows.rows import Rows
from nishimori._sums.outcomes import OneClaim
from nishimori._sums.passes import Mean
from nishimori._sums.predictions import Predictions
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray
from nishimori._support.display import short_repr
from nishimori._support.formatting import number_text, percent_with_error, points_with_error, value_with_error
from nishimori._support.intervals import (
    Interval,
    interval_around,
    interval_in_ratio,
    interval_of_share,
    number_behind,
    two_sided,
)
from nishimori.errors import InputError

if TYPE_CHECKING:
    from nishimori._evaluation.metrics.ece import EceDifference
    from nishimori._evaluation.scorecard import Scorecard
    from nishimori._sums.binned_gaps import BinnedGaps

Direction = Literal["lower", "higher"]
"""Which values of a metric are better."""

StandardError = float | Callable[[], float] | None
"""A standard error, or a function that computes it when needed; None if it is not known."""

Needs = Literal["top", "label", "all"]
"""Which probabilities of a row a metric needs: of the predicted class, also of the true class, or of all classes."""

# Sums of many numbers may exceed a bound by so much.
_ROUNDING = 1e-9

# Sums over the rows of calibrations that are the same, but were computed in other ways, differ by less in relation to them.
_SAME = 1e-12

# What results hold beside metrics, or bounds are about.
_TAKEN = {"n_samples", "temperature", "estimates", "reliability", "method", "why", "class_gap"}
_TAKEN |= {"group_gap", "ece_corrected", "n_at_zeros", "n_clusters", "data_digest", "corrected", "caveat"}
_TAKEN |= {"interval", "to_dict", "why_no_se", "names", "bins", "title"}


class Limits(NamedTuple):
    """One-sided limits of a metric, and a remark, which may be empty.

    ``value`` is what a bound is held against where that is not the value itself, but another estimate of the same.
    """

    low: float
    high: float
    about: str = ""
    value: float | None = None


@dataclass(frozen=True)
class Estimate:
    """A metric of some data, with its standard error.

    Attributes
    ----------
    metric : Metric
        What was measured.
    value : float
        The metric.
    se : float or None
        Its standard error; None where it is not known.
    why_no_se : str
        Why the standard error is not known; empty if it is.
    """

    metric: "Metric" = field(repr=False)
    value: float
    error: StandardError = field(default=None, repr=False)  # the standard error, or what computes it
    why_no_se: str = field(default="", repr=False)
    squares: float = field(default=nan, repr=False)  # Σw²/(Σw)²
    gaps: "BinnedGaps | None" = field(default=None, repr=False)  # of metrics that are made of bins
    sums: Any = field(default=None, repr=False)  # of metrics that keep them

    @cached_property
    def se(self) -> float | None:
        error = self.error() if callable(self.error) else self.error
        return error if error is None or isfinite(error) else None

    def __repr__(self) -> str:
        return short_repr(self, metric=self.metric.label, value=self.value, se=self.se)

    @property
    def text(self) -> str:
        """The value with its standard error as text; a difference of shares is in points."""
        if self.metric.is_signed:
            return points_with_error(self.value, self.se)
        if self.metric.in_percent:
            return percent_with_error(self.value, self.se)
        return number_text(self.value) if self.se is None else value_with_error(self.value, self.se)

    def __str__(self) -> str:
        return f"{self.metric.shown} {self.text}{' %' if self.metric.is_signed else ''}"

    def interval(self, level: float = 0.95) -> Interval:
        """The range of the metric that the data leave possible.

        Parameters
        ----------
        level : float
            How often such an interval contains the metric of infinitely many samples, between 0 and 1.
        """
        if self.se is None:
            raise InputError(f"`interval` needs the standard error of {self.metric.label}, which is not known: {self.reason}")
        return self.metric.interval(self, level)

    @property
    def reason(self) -> str:
        """Why the standard error is not known, or an empty text."""
        return self.why_no_se or "the metric does not exist for some parts of the data."


@dataclass(frozen=True)
class Difference:
    """A metric of the second calibration minus that of the first.

    Attributes
    ----------
    value : float
        The difference; negative if the second is lower.
    se : float or None
        Its standard error; None if it is not known.
    p_value : float or None
        How probable a difference of either sign of at least this size is if there is none.
    """

    value: float
    se: float | None
    p_value: float | None
    ece: "EceDifference | None" = field(default=None, repr=False, compare=False)

    @classmethod
    def normal(cls, value: float, error: float, scale: float = 0.0) -> "Difference":
        """A difference with a normal error; an error that is not finite counts as unknown.

        ``scale`` is the size of the two metrics: a difference and an error within their rounding are none.
        """
        if not isfinite(error) or not isfinite(value):
            return cls(value, None, None)
        if max(abs(value), error) <= _SAME * scale:
            return cls(0.0, 0.0, 1.0)
        if error == 0:
            return cls(value, 0.0, 1.0 if value == 0 else 0.0)
        return cls(value, error, two_sided(value / error))

    def interval(self, level: float = 0.95) -> Interval:
        """The differences that the data leave possible, as a named tuple (low, high).

        Parameters
        ----------
        level : float
            How often such an interval contains the difference of infinitely many samples, between 0 and 1.
        """
        if self.ece is not None:
            return self.ece.interval(level)
        if self.se is None:
            why = "there is only one sample, the loss is infinite because a true class is masked, or the metric has none."
            raise InputError(f"`interval` needs the standard error of the difference, which is not known: {why}")
        return interval_around(self.value, self.se, level)


class MeanOfRows(NamedTuple):
    """The mean of a number per row, and its standard error."""

    value: float
    se: float


_WAYS = ("of_rows", "sums", "of_outcomes")
"""The methods of which a metric defines one."""


class Metric:
    """A number that says how good probabilities are: what `evaluate`, `compare`, `gate` and reports measure.

    Subclass it, give it a name, and write one of these three. Parameters of the metric are the fields of a frozen dataclass.

    - `of_rows`: a number per sample. The metric is their weighted mean. Standard errors, those of clusters and of paired
      differences included, follow.
    - `sums` and `of_sums`: anything that adds, for each batch of samples; the metric and its standard error from the total.
    - `of_outcomes`: the metric from the confidence and the correctness of all samples, which are kept, 17 bytes per sample.
      Standard errors come from resampling.

    Pass it as ``metrics=[...]``, or give it its name everywhere with `nishimori.register`.

    Attributes
    ----------
    name : str
        What it is called in results: a word, such as "classwise_brier".
    title : str
        What tables call it; the name by default.
    direction : {"lower", "higher"} or None
        Which values are better; None where neither is.
    bounds : tuple of float
        The lowest and the highest value that it can have.
    in_percent : bool
        Whether tables show it in percent.
    is_share : bool
        Whether it is the share of samples for which something is true. Intervals are then Wilson's.
    resampling : {"jackknife", "bootstrap"}
        Where the standard error of `of_outcomes` comes from. The jackknife is for smooth functions of the data, and takes 100
        evaluations; the bootstrap takes 200.
    needs : {"top", "label", "all"}
        Which probabilities of a sample it needs: that of the predicted class, also that of the true class, or all. Top-k
        log-probabilities do not have all.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> class Entropy(nishimori.Metric):
    ...     name = "entropy"
    ...     direction = None
    ...     def of_rows(self, predictions):
    ...         p = predictions.probabilities
    ...         return -(p * np.log(np.where(p > 0, p, 1))).sum(axis=1)
    >>> card = nishimori.evaluate([[2.0, 0.0], [0.0, 1.0]], [0, 0], metrics=[Entropy()])
    >>> print(f"{card['entropy'].value:.3f} ± {card['entropy'].se:.3f}")
    0.474 ± 0.077
    """

    name: ClassVar[str]
    title: ClassVar[str] = ""
    direction: ClassVar[Direction | None] = "lower"
    bounds: ClassVar[tuple[float, float]] = (0.0, inf)
    in_percent: ClassVar[bool] = False
    is_share: ClassVar[bool] = False
    resampling: ClassVar[Resampling] = "jackknife"
    needs: ClassVar[Needs] = "all"

    is_mean: ClassVar[bool]  # whether it writes `of_rows`: its sums are then those of a number per row
    of_all: ClassVar[bool]  # whether it writes `of_outcomes`: its sums are then all outcomes

    # What only the library's own metrics say.
    by_default: ClassVar[bool] = False  # part of every scorecard: it needs no more than the sums that are there anyway
    in_tables: ClassVar[bool] = True  # False where another column of the table says the same
    of_predictions: ClassVar[bool] = False  # whether no temperature changes it
    order: ClassVar[int] = 100  # its place in tables
    why_infinite: ClassVar[str] = "its mean is not finite."
    of_bins: ClassVar[OneClaim | None] = None  # of which claim `sums` are the sums per bin that every scorecard has
    by_default_of_claims: ClassVar[bool] = False  # part of every scorecard of claims, which are kept for it
    why_undefined: ClassVar[str] = ""  # why it may be NaN
    n_classes: ClassVar[int | None] = None  # the only number of classes that it is for; None for any
    has_se: ClassVar[bool] = True  # False where no standard error is known, so that no bound can be checked
    keeps_sums: ClassVar[bool] = False  # whether its `Estimate` has what it is made of
    is_complement: ClassVar[bool] = False  # one minus the mean of `of_rows`: what is rare is summed with all digits
    score: ClassVar[str | None] = None  # which of the kernel's `SCORES` it is that `of_rows` returns

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        written = [way for way in _WAYS if getattr(cls, way) is not getattr(Metric, way)]
        if len(written) != 1:
            got = ", ".join(written) or "none of them"
            raise InputError(f"The metric {cls.__name__}", f"have one of the methods {', '.join(_WAYS)}", got=got)
        cls.is_mean, cls.of_all = written == ["of_rows"], written == ["of_outcomes"]
        if "of_rows" in vars(cls) and "score" not in vars(cls):
            cls.score = None  # that of the class which wrote another `of_rows`
        name = getattr(cls, "name", None)
        if not isinstance(name, str) or not name.isidentifier():
            raise InputError(f"{cls.__name__}.name", "be a word of letters, digits and underscores", got=repr(name))
        if name in _TAKEN:
            raise InputError(f"{cls.__name__}.name", "be a different word", got=f"{name!r}, which results use otherwise")
        if cls.direction not in (None, "lower", "higher"):
            raise InputError(f"{cls.__name__}.direction", "be 'lower', 'higher' or None", got=repr(cls.direction))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))  # attributes may have no hash

    def of_rows(self, predictions: Predictions) -> Any:
        """A number per sample, whose weighted mean is the metric.

        Parameters
        ----------
        predictions : Predictions
            Some samples, with ``probabilities``, ``labels``, ``confidence``, ``correct``, ``predicted``, ``log_likelihood``.

        Returns
        -------
        array of shape (n,)
            Infinite where the metric of all samples is to be infinite; never NaN.
        """
        raise NotImplementedError

    def of_mean(self, mean: float) -> float:
        """The metric from the mean of `of_rows`: the mean itself, or its complement."""
        return 1 - mean if self.is_complement else mean

    def sums(self, predictions: Predictions) -> Any:
        """Any sums over samples that support ``+``, such as an array of numbers.

        Where its standard error is to hold for clusters and for weights that are counts, ``predictions.clusters`` and
        ``predictions.counts`` say so.
        """
        raise NotImplementedError

    def of_sums(self, sums: Any) -> tuple[float, StandardError]:
        """The metric and its standard error from the sums of all samples.

        The standard error may be None if it is not known, or a function without arguments if it takes long to compute.
        """
        raise NotImplementedError

    def pair(self, first: Predictions, second: Predictions) -> Any:  # noqa: ARG002 - for those that can
        """Any sums that support ``+``, which show `difference` how two calibrations of the same samples vary together."""
        return ()

    def difference(self, first: Any, second: Any, pair: Any, *, alone: bool) -> Difference:
        """The metric of the second sums minus the metric of the first; ``alone`` if there is one sample.

        ``pair`` is what `pair` has summed, without which the standard error is not known; of a mean it is that error.
        """
        old, new = self.from_sums(first)[0], self.from_sums(second)[0]
        if self.is_mean:
            return Difference.normal(new - old, nan if alone else pair, max(abs(old), abs(new)))
        if self.of_all:
            error = nan if alone else second.difference_se(first, self.of_outcomes, self.resampling)
            return Difference.normal(new - old, error)
        return Difference(new - old, None, None)

    def of_outcomes(self, confidence: HostArray, correct: HostArray, weights: HostArray) -> float:
        """The metric from the confidence of all samples, whether each was correct, and their weights, in one array each."""
        raise NotImplementedError

    def interval(self, estimate: Estimate, level: float) -> Interval:
        """The range of the metric that the data leave possible, where the standard error is known."""
        value, error = estimate.value, estimate.se
        assert error is not None, "whose absence has a reason"
        if self.is_share:
            return interval_of_share(value, number_behind(value, error**2, estimate.squares), level)
        return Interval(*np.clip(interval_around(value, error, level), *self.bounds).tolist())

    def limits(self, estimate: Estimate, card: "Scorecard", level: float) -> Limits:
        """One-sided limits, each on the wrong side of the truth in at most a share 1 - ``level`` of data sets."""
        value, error = estimate.value, estimate.se
        assert error is not None, "whose absence has a reason"
        if self.is_share:
            return Limits(*limits_of_share(value, number_behind(value, error**2, estimate.squares), level))
        low, high = interval_around(value, error, one_sided(level))
        about = ""
        if error == 0 and value in self.bounds:  # as where all answers are right: samples that vary would tell more
            return Limits(*self.bounds, "no sample differs")
        if self.is_mean and self.direction == "lower" and self.bounds[0] == 0:
            # Few large losses skew the error of a mean loss, so its upper limit is the further one of two.
            high = interval_in_ratio(value, error, one_sided(level)).high if value > 0 else 0.0
            if card.error < FEW * estimate.squares:
                high, about = inf, f"fewer than {FEW} wrong answers, which decide it"
        low, high = np.clip((low, high), *self.bounds).tolist()
        return Limits(low, high, about)

    def check(self, data: Rows) -> None:
        """Refuse data that the metric does not support, and parameters that do not suit them."""
        if self.n_classes is not None and not self.suits(data.n_classes):
            must = f"be left out unless there are {self.n_classes} classes"
            raise InputError(f"The metric {self.name}", must, got=data.n_classes)

    def suits(self, n_classes: int) -> bool:
        """Whether the metric supports this number of classes."""
        return self.n_classes in (None, n_classes)

    def measure(self, data: Rows, beta: float) -> float:
        """The metric of rows at an inverse temperature."""
        return self.in_bounds(self.from_sums(data.gather(partial(self.gather, beta)))[0])

    def gather(self, beta: float, batch: Batch) -> Any:
        """Sum over a batch what the metric needs, at an inverse temperature."""
        predictions = Predictions(batch, beta)
        return Mean(batch.total(self.rows(predictions)), batch.weight) if self.is_mean else self.summed(predictions)

    def in_bounds(self, value: float) -> float:
        """The value without rounding beyond its bounds; refuses one outside the bounds that the metric declares."""
        low, high = self.bounds
        room = _ROUNDING * max(1.0, abs(value))
        if not isnan(value) and not low - room <= value <= high + room:
            raise InputError(f"{type(self).__name__}.bounds", f"hold the metric of these data, {value:.6g}", got=self.bounds)
        return value if isnan(value) else min(max(value, low), high)

    def summed(self, predictions: Predictions) -> Any:
        """The result of `sums`, which must support ``+``; all outcomes if the metric is computed from these."""
        if self.of_all:
            return KeptRows.from_predictions(predictions, predictions.confidence, predictions.correct)
        summed = self.sums(predictions)
        if isinstance(summed, tuple | list | str | dict | set) or not hasattr(summed, "__add__"):
            remedy = "Return an array, or an object with `__add__`."
            raise InputError(
                f"{type(self).__name__}.sums", "return a sum that supports +", got=f"{summed!r:.60}", remedy=remedy
            )
        return summed

    def from_sums(self, sums: Any) -> tuple[float, StandardError]:
        """The metric and its standard error from the sums of all samples; checks that `of_sums` returns these two."""
        if self.is_mean:
            return self.of_mean(sums.value), sums.se if isinstance(sums, MeanOfRows) and isfinite(sums.se) else None
        if self.of_all:
            return float(self.of_outcomes(*sums.columns)), partial(sums.se, self.of_outcomes, self.resampling)
        pair: Any = self.of_sums(sums)
        try:
            value, error = pair
            number = float(value)
        except (TypeError, ValueError):
            number = nan
        if isnan(number) and not self.why_undefined:
            got = f"{pair!r:.60}"
            raise InputError(f"{type(self).__name__}.of_sums", "return the value and its standard error or None", got=got)
        return number, error

    @property
    def is_signed(self) -> bool:
        """Whether it is a share that can be negative: a difference, shown in points in tables."""
        return self.in_percent and self.bounds[0] < 0

    @property
    def label(self) -> str:
        """The name in results: the metric's name, with all parameters that differ from their defaults."""
        return self.name + self._parameters

    @property
    def shown(self) -> str:
        """The title in tables."""
        return " ".join(filter(None, (self.title or self.name.replace("_", " "), self._parameters)))

    @property
    def _parameters(self) -> str:
        own: tuple[Field[Any], ...] = fields(self) if is_dataclass(self) else ()
        changed = [
            f"{parameter.name}={value!r}" for parameter in own if (value := getattr(self, parameter.name)) != parameter.default
        ]
        return f"({', '.join(changed)})" if changed else ""

    def rows(self, predictions: Predictions) -> Array:
        """The numbers of `of_rows`, checked, in the array library of the batch."""
        batch, numbers = predictions.batch, self.of_rows(predictions)
        if not hasattr(numbers, "shape") or tuple(numbers.shape) != (batch.n_rows,):
            got = getattr(numbers, "shape", type(numbers).__name__)
            raise InputError(f"{type(self).__name__}.of_rows", f"return an array of shape ({batch.n_rows},)", got=got)
        if not isinstance(numbers, np.ndarray):
            return numbers
        numbers = numbers.astype(np.float64, copy=False)
        return numbers if isinstance(batch.double, np.ndarray) else arrays.on_device_of(numbers, batch.double)
