"""Scores of a classifier: how often it is right, how sure it is, and whether the two agree.

`nishimori.evaluate` gives the usual ones together, from one pass over the data. Here every function takes ``(logits, labels)``,
in that order and in any array library, ``temperature``, by which logits are divided first, so that one array serves before and
after calibration, and the keywords about data that `nishimori.rows` explains.

Logits may have more dimensions before the classes, such as (sequences, tokens, vocabulary): each position is a sample. A flat
array z of shape (n,) stands for the two logits (0, z), a flat array p of probabilities for (1 - p, p). Each function returns a
Python float, summed in float64; `reliability` returns the curve that `ece` sums, `decomposition` the parts of a score, and
`estimate` gives most of them a standard error and an interval.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Unpack

from nishimori._evaluation.decomposition import Decomposition, decomposition
from nishimori._evaluation.estimate import Estimate, estimate
from nishimori._evaluation.kolmogorov_smirnov import ks
from nishimori._evaluation.smooth_ece import smooth_ece
from nishimori._rows.batch import Batch
from nishimori._rows.entry import open_rows
from nishimori._rows.options import ONE_NUMBER, RowOptions, takes_rows
from nishimori._rows.rows import Rows
from nishimori._sums.census import CountZeros, warn_of_zeros
from nishimori._sums.gibbs import Gibbs
from nishimori._sums.observables import Confidence, TopN
from nishimori._sums.passes import Mean, together
from nishimori._sums.reliability import Norm, Of, Reliability, Strategy, reliability_of
from nishimori._support.numbers import temperature as checked_temperature
from nishimori._support.numbers import whole

__all__ = [
    "Decomposition",
    "Estimate",
    "Reliability",
    "accuracy",
    "brier",
    "confidence",
    "decomposition",
    "ece",
    "error",
    "estimate",
    "ks",
    "nll",
    "reliability",
    "smooth_ece",
    "top_n_accuracy",
]


def __dir__() -> list[str]:
    return sorted(__all__)


@takes_rows(refuses=ONE_NUMBER)
def accuracy(
    logits: Any,
    labels: Any = None,
    *,
    temperature: float = 1.0,
    **options: Unpack[RowOptions],
) -> float:
    """Share of samples whose largest logit is at the true class; of equal largest logits the first counts.

    No temperature changes it; the keyword is there so that all metrics take the same arguments.

    Parameters
    ----------
    logits, labels
        Scores and true classes, as for `rows`.
    temperature : float
        Divide the logits by this first, so that one array serves before and after calibration.
    **options
        What is said about the data: see `rows`.

    Examples
    --------
    >>> from nishimori import metrics
    >>> metrics.accuracy([[2.0, 0.0], [0.0, 2.0]], [0, 0])
    0.5
    """
    data = open_rows(logits, labels, **options)
    return 1 - _average(data, _wrong, temperature)


@takes_rows(refuses=ONE_NUMBER)
def error(
    logits: Any,
    labels: Any = None,
    *,
    temperature: float = 1.0,
    **options: Unpack[RowOptions],
) -> float:
    """Share of samples whose largest logit is not at the true class: one minus `accuracy`.

    Parameters
    ----------
    logits, labels
        Scores and true classes, as for `rows`.
    temperature : float
        Divide the logits by this first, so that one array serves before and after calibration.
    **options
        What is said about the data: see `rows`.

    Examples
    --------
    >>> from nishimori import metrics
    >>> metrics.error([[2.0, 0.0], [0.0, 2.0], [1.0, 0.0], [3.0, 0.0]], [0, 0, 0, 0])
    0.25
    """
    data = open_rows(logits, labels, **options)
    return _average(data, _wrong, temperature)


@takes_rows(refuses=ONE_NUMBER)
def top_n_accuracy(
    logits: Any,
    labels: Any,
    top_n: int,
    *,
    temperature: float = 1.0,
    **options: Unpack[RowOptions],
) -> float:
    """Share of samples whose true class is among the ``top_n`` largest logits; of equal logits the first come first.

    Parameters
    ----------
    logits, labels
        Scores and true classes, as for `rows`.
    top_n : int
        How many of the largest logits count.
    temperature : float
        Divide the logits by this first, so that one array serves before and after calibration.
    **options
        What is said about the data: see `rows`.

    Examples
    --------
    >>> from nishimori import metrics
    >>> metrics.top_n_accuracy([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]], [1, 2], 2)
    0.5
    """
    data = open_rows(logits, labels, **options)
    n = whole("top_n", top_n, 1, data.n_classes, which_is="the number of classes")
    return 1 - _average(data, _Missed(n), temperature)


@takes_rows(refuses=ONE_NUMBER)
def nll(
    logits: Any,
    labels: Any = None,
    *,
    temperature: float = 1.0,
    **options: Unpack[RowOptions],
) -> float:
    """Mean negative log-likelihood of the true class, the cross-entropy; infinite if a true class is masked.

    Parameters
    ----------
    logits, labels
        Scores and true classes, as for `rows`.
    temperature : float
        Divide the logits by this first, so that one array serves before and after calibration.
    **options
        What is said about the data: see `rows`.

    Examples
    --------
    >>> from nishimori import metrics
    >>> round(metrics.nll([[2.0, 0.0], [0.0, 2.0]], [0, 0]), 4)
    1.1269
    """
    data = open_rows(logits, labels, **options)
    mean, zeros = data.gather(together(_Average(attrgetter("nll"), 1 / checked_temperature(temperature)), CountZeros())).items
    warn_of_zeros(int(zeros.total), int(zeros.weight), "the loss")
    return float(mean.value)


@takes_rows(refuses=ONE_NUMBER)
def brier(
    logits: Any,
    labels: Any = None,
    *,
    temperature: float = 1.0,
    **options: Unpack[RowOptions],
) -> float:
    """Mean squared distance between probabilities and truth, summed over classes: from 0 to 2.

    For two classes this is twice the Brier score of the positive class alone.

    Parameters
    ----------
    logits, labels
        Scores and true classes, as for `rows`.
    temperature : float
        Divide the logits by this first, so that one array serves before and after calibration.
    **options
        What is said about the data: see `rows`.

    Examples
    --------
    >>> from nishimori import metrics
    >>> round(metrics.brier([[2.0, 0.0], [0.0, 2.0]], [0, 0]), 4)
    0.79
    """
    data = open_rows(logits, labels, **options)
    return _average(data, attrgetter("brier"), temperature)


@takes_rows(refuses=ONE_NUMBER)
def confidence(
    logits: Any,
    labels: Any = None,
    *,
    temperature: float = 1.0,
    **options: Unpack[RowOptions],
) -> float:
    """Mean probability of the predicted class. Expectation consistency makes it equal `accuracy`.

    The labels are checked but do not enter.

    Parameters
    ----------
    logits, labels
        Scores and true classes, as for `rows`.
    temperature : float
        Divide the logits by this first, so that one array serves before and after calibration.
    **options
        What is said about the data: see `rows`.

    Examples
    --------
    >>> from nishimori import metrics
    >>> round(metrics.confidence([[2.0, 0.0], [0.0, 2.0]], [0, 0]), 4)
    0.8808
    """
    data = open_rows(logits, labels, **options)
    return _average(data, attrgetter("top"), temperature)


@takes_rows(refuses=ONE_NUMBER)
def ece(
    logits: Any,
    labels: Any = None,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    of: Of = "top",
    temperature: float = 1.0,
    **options: Unpack[RowOptions],
) -> float:
    """Expected calibration error: how far confidence is from accuracy, bin by bin.

    Parameters
    ----------
    logits, labels, temperature
        As for every metric of this module.
    n_bins : int
        Number of bins.
    strategy : {"uniform", "quantile"}
        Bins of equal width, or of equal weight with edges at values of the confidence. 15 quantile bins are the ECE of
        the paper's tables. Equal confidences share a bin, so with many ties there are fewer bins than asked for.
    norm : {"l1", "l2", "max"}
        Weighted mean, weighted root mean square, or maximum of the gaps.
    of : {"top", "positive", "classwise"}
        What is claimed: that the predicted class is right; that class 1 is true (binary problems only); or, for each class in
        turn, that it is true, averaged over classes without weights.
    **options
        What is said about the data: see `rows`.

    Returns
    -------
    float
        From 0 (calibrated) to 1.

    Notes
    -----
    Bin i holds edges[i] < p <= edges[i+1]: a confidence on an edge counts in the bin below it, 0 in the first bin and 1 in the
    last. Empty bins do not count. There is no correction for the bias of small bins.

    Examples
    --------
    >>> from nishimori import metrics
    >>> round(metrics.ece([[2.0, 0.0], [0.0, 2.0]], [0, 0], n_bins=10), 4)
    0.3808
    """
    beta = 1 / checked_temperature(temperature)
    data = open_rows(logits, labels, **options)
    return reliability_of(data, beta=beta, n_bins=n_bins, strategy=strategy, of=of).error(norm)


@takes_rows(refuses=ONE_NUMBER)
def reliability(
    logits: Any,
    labels: Any = None,
    *,
    n_bins: int = 15,
    strategy: Strategy = "uniform",
    of: Of = "top",
    temperature: float = 1.0,
    **options: Unpack[RowOptions],
) -> Reliability:
    """Confidence, accuracy, weight and gap of each non-empty bin: what `ece` sums and a reliability diagram shows.

    Parameters
    ----------
    logits, labels
        Scores and true classes, as for `rows`.
    n_bins, strategy, of
        Bins and claims, as for `ece`.
    temperature : float
        Divide the logits by this first, so that one array serves before and after calibration.
    **options
        What is said about the data: see `rows`.

    Examples
    --------
    >>> from nishimori import metrics
    >>> curve = metrics.reliability([[2.0, 0.0], [0.0, 2.0]], [0, 0], n_bins=10)
    >>> curve.confidence.round(4), curve.accuracy, curve.weight, curve.gap.round(4)
    (array([0.8808]), array([0.5]), array([2.]), array([0.3808]))
    """
    beta = 1 / checked_temperature(temperature)
    data = open_rows(logits, labels, **options)
    return reliability_of(data, beta=beta, n_bins=n_bins, strategy=strategy, of=of)


@dataclass(frozen=True)
class _Average:
    """The pass that averages one number per row, which may depend on the model's distribution at ``beta``."""

    rows: Callable[[Gibbs], Any]
    beta: float

    def __call__(self, batch: Batch) -> Mean:
        return Mean(batch.total(self.rows(Gibbs(batch, self.beta))), batch.weight)


def _average(data: Rows, rows: Callable[[Gibbs], Any], temperature: float) -> float:
    return data.gather(_Average(rows, 1 / checked_temperature(temperature))).value


@dataclass(frozen=True)
class _Missed:
    """1 where the true class is not among the N largest."""

    n: int

    def __call__(self, gibbs: Gibbs) -> Any:
        return -TopN(self.n).observed(gibbs)


def _wrong(gibbs: Gibbs) -> Any:
    return -Confidence().observed(gibbs)
