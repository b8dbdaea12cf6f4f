"""Metrics of the probability of the second of two classes, or of claims, that need every row: AUC, intercept and slope.

Each is a smooth function of the data, whose standard error is the spread of its influence function: how much a little more
weight of a row would move it. So weights, counts, clusters and paired differences are one sum.
"""

from functools import partial
from math import nan, sqrt
from typing import Any, ClassVar

import numpy as np

from nishimori._evaluation.metrics.metric import Difference, Metric, StandardError
from nishimori._evaluation.resampling import KeptRows
from nishimori._fit.logistic import LogisticSearch, Regression, overview
from nishimori._rows.array_rows import ArrayRows
from nishimori._rows.scores import Scores
from nishimori._sums.predictions import Predictions
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori.maps.log_odds import log_odds

Influence = tuple[float, HostArray]
"""The value of a metric, and its influence function: how much each row moves it per weight."""


class OfLogOdds:
    """Base class of metrics that depend on the log-odds of all rows and on whether each came true."""

    n_classes: ClassVar[int | None] = 2
    by_default_of_claims: ClassVar[bool] = True

    def sums(self, predictions: Predictions) -> KeptRows:
        """The log-odds of each row, infinite where a probability is exactly 0 or 1, and whether it came true."""
        batch = predictions.batch
        s = arrays.on_host(predictions.beta * log_odds(batch.double))
        if batch.probabilities is not None:
            passed = arrays.on_host(batch.probabilities)
            s = np.where(passed[:, 0] == 0, np.inf, np.where(passed[:, 1] == 0, -np.inf, s))
        return KeptRows.from_predictions(predictions, s, arrays.on_host(batch.labels) == 1)

    def influence(self, s: HostArray, true: HostArray, weights: HostArray) -> Influence | None:
        """The metric and its influence function; None where it does not exist."""
        raise NotImplementedError

    def of_sums(self, sums: KeptRows) -> tuple[float, StandardError]:
        """The metric, and the spread of its influence function."""
        computed = self.influence(*sums.columns)
        return (nan, None) if computed is None else (computed[0], partial(_error, sums, computed[1]))

    def difference(self, first: KeptRows, second: KeptRows, pair: Any, *, alone: bool) -> Difference:  # noqa: ARG002
        """The difference between two calibrations of the same rows."""
        old, new = self.influence(*first.columns), self.influence(*second.columns)
        if old is None or new is None:
            return Difference(nan, None, None)
        return Difference.normal(new[0] - old[0], nan if alone else _error(first, new[1] - old[1]))


def _error(kept: KeptRows, influence: HostArray) -> float:
    """The standard error of a number with this influence function."""
    weights = kept.columns[-1]
    if kept.clusters is not None:
        return sqrt(float((np.bincount(kept.clusters, weights * influence) ** 2).sum()))
    return sqrt(float((weights if kept.counts else weights**2) @ influence**2))


class AreaUnderCurve(OfLogOdds, Metric):
    """Area under the ROC curve: how often a sample of the positive class, the second of two, scores above one of the other.

    Of claims, how often a right answer has a higher confidence than a wrong one. Ties count one half. Calibration by an
    increasing map does not change it; isotonic regression and binning make ties.

    Notes
    -----
    The standard error is that of DeLong et al. (1988), up to (n − 1)/n. 17 bytes per row are kept.

    Examples
    --------
    >>> from nishimori import metrics
    >>> metrics.auc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1], input="probabilities")
    0.75
    """

    name = "auc"
    title = "AUC"
    direction = "higher"
    bounds = (0.0, 1.0)
    order = 10
    why_undefined = "all samples are of one class."

    def influence(self, s: HostArray, true: HostArray, weights: HostArray) -> Influence | None:
        """How often each row is on the right side of the other class's rows, minus the mean."""
        totals = np.bincount(true.astype(np.int64), weights, 2)
        if not totals.all():
            return None
        levels, place = np.unique(s, return_inverse=True)
        by_level = [
            np.bincount(place, weights * of_class, len(levels)) / total
            for of_class, total in ((~true, totals[0]), (true, totals[1]))
        ]
        others_below, true_below = (np.cumsum(share) - share / 2 for share in by_level)
        wins = np.where(true, others_below[place], 1 - true_below[place])
        value = float(by_level[1] @ others_below)
        return value, (wins - value) / totals[true.astype(np.int64)]


class CalibrationIntercept(OfLogOdds, Metric):
    """Calibration in the large of the positive class, or of claims: the shift of all log-odds that makes them right on average.

    It is the intercept of a logistic regression in which the log-odds have the slope 1: 0 if the mean probability is the share
    of samples that came true, negative where probabilities are too high.

    Notes
    -----
    D. R. Cox (1958); E. W. Steyerberg, Clinical Prediction Models (2019). Samples of probability exactly 0 or 1 have no
    log-odds and are left out, as in ``val.prob`` of the R package rms. The standard error is that of the sandwich, √Σ(y − p)² /
    Σp(1 − p).

    Examples
    --------
    >>> from nishimori import metrics
    >>> round(metrics.calibration_intercept([0.9, 0.8, 0.7, 0.9], [1, 0, 1, 0], input="probabilities"), 3)
    -1.662
    """

    name = "calibration_intercept"
    title = "calibration intercept"
    direction: ClassVar = None
    bounds = (-np.inf, np.inf)
    order = 11
    why_undefined = "all samples with probabilities between 0 and 1 are of one class."
    has_slope: ClassVar = False

    def influence(self, s: HostArray, true: HostArray, weights: HostArray) -> Influence | None:
        """The change in one Newton step if a row had slightly more weight, for each row."""
        finite = np.isfinite(s)
        influence = np.zeros(len(s))
        x, y, w = s[finite], true[finite], weights[finite]
        if not (y.any() and not y.all()) or (self.has_slope and not _overlap(x, y)):
            return None
        rows = ArrayRows(Scores(x, "logits"), y.astype(np.int64), w)
        terms = ("s",) if self.has_slope else ()
        seen = rows.gather(partial(overview, terms))
        regression = Regression.from_overview(
            terms, seen, has_constant=True, smoothing=(0.0, 0.0), has_offset=not self.has_slope
        )
        *slope, b = LogisticSearch(rows, seen).least_loss(regression).values.tolist()
        p = 1 / (1 + np.exp(-np.clip((slope[0] if slope else 1.0) * x + b, -700, 700)))
        columns = np.stack([x, np.ones_like(x)] if slope else [np.ones_like(x)], axis=1)
        information = columns.T @ (columns * (w * p * (1 - p))[:, None])
        influence[finite] = np.linalg.solve(information, (columns * (y - p)[:, None]).T)[0]
        return (slope[0] if slope else b), influence


def _overlap(s: HostArray, true: HostArray) -> bool:
    """Whether no threshold separates the classes, so that a finite slope fits best."""
    return bool(s[true].min() < s[~true].max() and s[~true].min() < s[true].max())


class CalibrationSlope(CalibrationIntercept):
    """Calibration slope of the positive class, or of claims: 1 if calibrated, below 1 where log-odds are too far from zero.

    It is the slope of a logistic regression on the log-odds, which has its own intercept.

    Notes
    -----
    D. R. Cox (1958); E. W. Steyerberg, Clinical Prediction Models (2019). Samples of probability exactly 0 or 1 have no
    log-odds and are left out, as in ``val.prob`` of the R package rms. The standard error is that of the sandwich.

    Examples
    --------
    >>> from nishimori import metrics
    >>> round(metrics.calibration_slope([0.9, 0.8, 0.7, 0.4, 0.2], [1, 0, 1, 1, 0], input="probabilities"), 3)
    0.569
    """

    name = "calibration_slope"
    title = "calibration slope"
    order = 12
    why_undefined = "a threshold separates the classes, or all log-odds are equal, so that no finite slope fits best."
    has_slope = True
