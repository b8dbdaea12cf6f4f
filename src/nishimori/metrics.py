"""Scores of a classifier: accuracy, confidence, and whether the two agree.

`nishimori.evaluate` gives the usual ones together, with standard errors and intervals, from one pass over the data. Here every
metric is a function of ``(logits, labels)``, in that order and in any array library, ``temperature``, by which logits are
divided first, so that one array serves before and after calibration, and the keywords about data that `nishimori.rows`
explains. It returns a Python float, summed in float64. `reliability` returns the curve that `ece` sums, `decomposition` the
parts of a score.

Logits may have more dimensions before the classes, such as (sequences, tokens, vocabulary): each position is a sample. A flat
array z of shape (n,) stands for the two logits (0, z), a flat array p of probabilities for (1 - p, p).

A metric of your own is a subclass of `nishimori.Metric`; `nishimori.register` gives it its name here and everywhere else.
"""

import re
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass, replace
from inspect import Parameter, Signature, cleandoc
from typing import Any, Protocol, Unpack

from nishimori._evaluation.cost import Cost
from nishimori._evaluation.decomposition import Decomposition, decomposition
from nishimori._evaluation.metrics import table
from nishimori._evaluation.metrics.metric import Metric
from nishimori._rows.entry import open_rows
from nishimori._rows.options import ONE_NUMBER, RowOptions, takes_rows
from nishimori._sums.predictions import reliability_of
from nishimori._sums.reliability import Of, Reliability, Strategy
from nishimori._support.formatting import join_names
from nishimori._support.numbers import temperature as checked_temperature
from nishimori._support.optional import import_object
from nishimori.errors import InputError

__all__ = [  # noqa: PLE0604 - the table is the rest of the list
    "Cost",
    "Decomposition",
    "Reliability",
    "decomposition",
    "reliability",
    "scorer",
    *table.built_in(),
]


class MetricFunction(Protocol):
    """A metric as a function of data; its attribute ``metric`` is the metric itself."""

    metric: Metric

    def __call__(self, logits: Any, labels: Any = None, *, temperature: float = 1.0, **options: Any) -> float:
        """The metric of data."""


# For type checkers and editors; `__getattr__` makes them, and those of metrics that are not listed here.
accuracy: MetricFunction
auc: MetricFunction
augrc: MetricFunction
aurc: MetricFunction
brier: MetricFunction
calibration_intercept: MetricFunction
calibration_slope: MetricFunction
confidence: MetricFunction
ece: MetricFunction
error: MetricFunction
gap: MetricFunction
ks: MetricFunction
nll: MetricFunction
positive_ece: MetricFunction
positive_gap: MetricFunction
smooth_ece: MetricFunction
top_n_accuracy: MetricFunction


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name not in table.names():
        raise AttributeError(f"module 'nishimori.metrics' has no attribute {name!r}")
    function = _function_of(table.find_metric(name))
    if name in table.built_in():
        globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted({*__all__, *table.names()})


# How a metric becomes a function: signature and docstring are made of the metric's class.

_BEFORE = """logits, labels
    Scores and true classes, as for `rows`.
"""
_AFTER = """temperature : float
    Divide the logits by this first, so that the same array serves before and after calibration.
**options
    Options about the data: see `rows`.
"""


def _function_of(metric: Metric) -> Callable[..., float]:
    """The function that computes a metric of data, with the parameters of the metric as keywords.

    It knows its metric as ``metric``, so that `evaluate` and others take the function as well.
    """
    own: dict[str, Any] = {field.name: field.default for field in fields(metric)} if is_dataclass(metric) else {}

    def function(logits: Any, labels: Any = None, *, temperature: float = 1.0, **options: Any) -> float:
        chosen = {name: options.pop(name) for name in own if name in options}
        used: Metric = replace(metric, **chosen) if chosen else metric  # type: ignore[type-var]
        beta = 1 / checked_temperature(temperature)
        data = open_rows(logits, labels, **options)
        used.check(data)
        return used.measure(data, beta)

    function.__name__ = function.__qualname__ = metric.name
    function.__module__ = "nishimori.metrics"
    function.__doc__ = _docstring(cleandoc(type(metric).__doc__ or ""))
    keywords = {"temperature": 1.0} | {
        name: Parameter.empty if default is MISSING else default for name, default in own.items()
    }
    function.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter("logits", Parameter.POSITIONAL_OR_KEYWORD),
            Parameter("labels", Parameter.POSITIONAL_OR_KEYWORD, default=None),
            *(Parameter(name, Parameter.KEYWORD_ONLY, default=default) for name, default in keywords.items()),
            Parameter("options", Parameter.VAR_KEYWORD),
        ],
        return_annotation=float,
    )
    checked = takes_rows(refuses=ONE_NUMBER)(function)
    checked.metric = metric  # type: ignore[attr-defined]
    return checked


def _docstring(text: str) -> str:
    """The docstring of the class with the arguments of every metric among its parameters."""
    head = "Parameters\n----------\n"
    if head in text:
        # Its own parameters end where the next section begins, or at the end.
        begin = text.index(head) + len(head)
        end = next((match.start() for match in re.finditer(r"\n\n(?=\w[^\n]*\n-+\n)|\Z", text[begin:])), 0) + begin
        return f"{text[:begin]}{_BEFORE}{text[begin:end]}\n{_AFTER.rstrip()}{text[end:]}"
    section = re.search(r"^\w[^\n]*\n-{3,}$", text, re.MULTILINE)
    place = section.start() if section else len(text)
    return f"{text[:place].rstrip()}\n\n{head}{_BEFORE}{_AFTER}\n{text[place:]}".rstrip()


def scorer(metric: str | Metric | MetricFunction, **parameters: Any) -> Any:
    """A metric as a scorer of scikit-learn, for ``scoring=`` of cross-validation and searches.

    It is higher for better classifiers: what is better low gets a minus sign, and `gap` and `positive_gap` are minus their
    size. A classifier needs ``predict_proba``; its ``classes_`` say which column is which class. Weights are passed as to other
    scorers, with metadata routing.

    Parameters
    ----------
    metric : str, function or Metric
        The name of a metric, such as "ece" or "top_n_accuracy(top_n=3)", a function of this module, or a metric of your own.
    **parameters
        Parameters of the metric, such as ``n_bins``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_validate
    >>> from nishimori import metrics
    >>> scoring = {"ece": metrics.scorer("ece", n_bins=10), "nll": metrics.scorer("nll")}
    >>> found = cross_validate(LogisticRegression(max_iter=500), *load_iris(return_X_y=True), scoring=scoring)
    >>> print(f"ECE {-found['test_ece'].mean():.3f}, NLL {-found['test_nll'].mean():.3f}")
    ECE 0.099, NLL 0.140
    """
    chosen: Any = table.find_metric(metric, "metric") if isinstance(metric, str) else table.as_metric(metric)
    own = {field.name for field in fields(chosen)} if is_dataclass(chosen) else set()
    if chosen is None or not set(parameters) <= own:
        must = (
            "be the name of a metric, its function or a Metric"
            if chosen is None
            else f"have the parameters {join_names(tuple(parameters))}"
        )
        raise InputError("metric", must, got=f"{metric!r:.60}")
    return import_object(_SCORER)(replace(chosen, **parameters) if parameters else chosen)


# scikit-learn takes longer to import than a metric takes.
_SCORER = "nishimori._evaluation.metric_scorer:metric_scorer"


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
        Divide the logits by this first, so that the same array serves before and after calibration.
    **options
        What is said about the data, see `rows`: ``sample_weight``, ``input``, ``classes``, ``floor``, ``ignore_index``,
        ``shift_labels``, ``class_axis``, ``member_axis``.

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
