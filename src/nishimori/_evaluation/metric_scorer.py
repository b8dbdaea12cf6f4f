"""A metric as a scorer for scikit-learn's cross-validation and searches: higher scores are better."""

from typing import Any

from nishimori._calibrators.private_sklearn import BaseScorer
from nishimori._evaluation.metrics.metric import Metric
from nishimori._rows.entry import open_rows
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError


class MetricScorer(BaseScorer):  # type: ignore[misc]
    """Calls ``predict_proba`` of a classifier, and measures what it says about the samples of a fold.

    scikit-learn's `make_scorer` does not tell a metric which column belongs to which class, and a fold may lack a class.
    """

    def __init__(self, metric: Metric) -> None:
        super().__init__(metric, 1 if metric.direction == "higher" else -1, {}, "predict_proba")
        self.metric = metric

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.metric!r})"

    def _accept_sample_weight(self) -> bool:
        return True

    def _score(self, method_caller: Any, estimator: Any, X: Any, y_true: Any, **options: Any) -> float:
        """The metric with the sign that makes higher better; for a difference, minus its absolute value."""
        p: HostArray = method_caller(estimator, "predict_proba", X)
        names = ("predict_proba(X)", "y")
        rows = open_rows(p, y_true, input="probabilities", classes=estimator.classes_, names=names, **options)
        self.metric.check(rows)
        value = self.metric.measure(rows, 1.0)
        return -abs(value) if self.metric.is_signed else self._sign * value


def metric_scorer(metric: Metric) -> MetricScorer:
    """The scorer of a metric; refuses a metric without a direction."""
    if metric.direction is None and not metric.is_signed:
        raise InputError("metric", "be a metric for which high or low values are better", got=repr(metric.name))
    return MetricScorer(metric)
