"""The table of all metrics: everything that measures or shows metrics iterates over it.

A metric comes from a module of this folder, from `register` in this process, from the entry points of installed packages, or
from ``package.module:Name``.
"""

import ast
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from nishimori._evaluation import metrics as folder
from nishimori._evaluation.metrics.metric import Metric
from nishimori._rows.question import question
from nishimori._support.optional import entry_points, import_object, load_entry_point
from nishimori.errors import InputError, setting

GROUP = "nishimori.metrics"
"""The group of the entry points with which packages add metrics to every process."""

_registered: dict[str, Metric] = {}


@cache
def built_in() -> dict[str, Metric]:
    """The metrics of this folder by name, in the order of tables."""
    modules = [import_module(f"{folder.__name__}.{module.name}") for module in iter_modules(folder.__path__)]
    classes = [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Metric) and value is not Metric and value.__module__ == module.__name__
    ]
    return {kind.name: kind() for kind in sorted(classes, key=lambda kind: (kind.order, kind.name))}


def register_metric(name: str, metric: Metric) -> None:
    """Register a metric under its name in this process, so that it works like a built-in one; see `nishimori.register`."""
    if metric.name != name:
        raise InputError("name", f"be the name of the metric, {metric.name!r}", got=repr(name))
    taken = _find(name)
    if taken is not None and type(taken) is not type(metric):
        other = type(taken).__name__
        raise InputError("The metric's name", "be new", got=f"{name!r}, which is the name of {other}", remedy="Choose another.")
    if name not in built_in():
        _registered[name] = metric


def names() -> tuple[str, ...]:
    """All names, with names of entry points last; these are not imported."""
    return tuple(dict.fromkeys([*built_in(), *_registered, *(point.name for point in entry_points(GROUP))]))


def names_with_bounds() -> tuple[str, ...]:
    """The names of metrics that can be bounded: better values are lower or higher, and a standard error is known."""
    metrics = built_in() | _registered  # those of entry points are not imported
    return tuple(name for name in names() if name not in metrics or (metrics[name].direction and metrics[name].has_se))


def default_metrics() -> tuple[Metric, ...]:
    """The metrics in every scorecard: they only need sums that are computed anyway."""
    return tuple(metric for metric in built_in().values() if metric.by_default)


def find_metric(name: str, argument: str = "metrics", choices: Sequence[str] | None = None) -> Metric:
    """The metric that a user typed in ``argument``, such as "nll", "top_n_accuracy(top_n=3)" or "package.module:Name".

    For an unknown name, the message lists ``choices``, by default all names.
    """
    plain, parameters = _parsed(name, argument)
    metric = _checked(import_object(plain), plain) if ":" in plain else _find(plain)
    if metric is None:
        choices = names() if choices is None else choices
        close = get_close_matches(plain.lower(), choices, 1)
        remedy = f"Did you mean {close[0]!r}?" if close else ""
        raise InputError(argument, f"be one of {', '.join(choices)}, or package.module:Name", got=repr(name), remedy=remedy)
    own: list[str] = [parameter.name for parameter in fields(metric)] if is_dataclass(metric) else []
    if not set(parameters) <= set(own):
        must = f"have the parameters {', '.join(own)}" if own else "be written without parameters: it has none"
        raise InputError(f"The metric {plain}", must, got=repr(name))
    return replace(metric, **parameters) if parameters else metric  # type: ignore[type-var]


def _parsed(text: str, argument: str) -> tuple[str, dict[str, Any]]:
    """The name and the parameters of "name(parameter=value, ...)"."""
    name, bracket, rest = text.partition("(")
    if not bracket:
        return text.strip(), {}
    try:
        call = ast.parse(f"f({rest}", mode="eval").body
        assert isinstance(call, ast.Call)
        assert not call.args
        return name.strip(), {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, AssertionError):
        raise InputError(argument, "have parameters as in top_n_accuracy(top_n=3)", got=repr(text)) from None


def _find(name: str) -> Metric | None:
    metric = built_in().get(name) or _registered.get(name)
    if metric is not None:
        return metric
    for point in entry_points(GROUP):
        if point.name == name:
            _registered[name] = _checked(load_entry_point(point, "metric"), name)
            return _registered[name]
    return None


def _checked(target: Any, name: str) -> Metric:
    metric = as_metric(target)
    if metric is None:
        raise InputError(f"The metric {name!r}", "be a nishimori.Metric", got=f"{target!r:.60}")
    return metric


def as_metric(target: Any) -> Metric | None:
    """The metric that a metric, its class or its function stands for; None for anything else."""
    if isinstance(target, type) and issubclass(target, Metric):
        return target()
    metric = target if isinstance(target, Metric) else getattr(target, "metric", None)
    return metric if isinstance(metric, Metric) else None


class AskedMetrics(tuple[Metric, ...]):
    """The metrics of a scorecard, and which of them the user requested."""

    named: frozenset[str]

    @classmethod
    def from_metrics(cls, metrics: Iterable[Metric], named: Iterable[str]) -> "AskedMetrics":
        """``named`` are the labels of the requested metrics."""
        selection = cls(metrics)
        selection.named = frozenset(named)
        return selection


def asked_metrics(wanted: Any, argument: str = "metrics") -> AskedMetrics:
    """The metrics of every scorecard, and the ones that a user requests: names, metrics, or functions of metrics."""
    if wanted is None:
        return AskedMetrics.from_metrics(default_metrics(), ())
    if isinstance(wanted, str) or not isinstance(wanted, Iterable):
        remedy = f"Pass `[{wanted!r}]`." if isinstance(wanted, str) else ""
        raise InputError(argument, "be a list of metrics or their names", got=f"{wanted!r:.60}", remedy=remedy)
    by_label = {metric.label: metric for metric in default_metrics()}
    named = []
    for entry in wanted:
        metric = find_metric(entry, argument) if isinstance(entry, str) else as_metric(entry)
        if metric is None:
            raise InputError(argument, "hold metrics, their functions or their names", got=f"{entry!r:.60}")
        if metric.of_bins is not None and metric.label != metric.name:
            reason = f"{setting('n_bins')} and {setting('strategy')} choose the bins"
            raise InputError(argument, f"have {metric.name!r} without parameters: {reason}", got=repr(metric.label))
        if by_label.get(metric.label, metric) != metric:
            got = f"two metrics called {metric.label!r}"
            raise InputError(argument, "have different names", got=got, remedy="Give one of them another name.")
        by_label[metric.label] = metric
        named.append(metric.label)
    return AskedMetrics.from_metrics(by_label.values(), named)


@question("cannot give metrics")
def can_measure(data: Any, metric: Metric) -> bool:  # noqa: ARG001 - rows tell all
    """Whether a metric can be measured on data of this kind."""
    return True


def checked_metrics(metrics: Sequence[Metric] | None, data: Any) -> tuple[Metric, ...]:
    """The metrics (the usual ones by default) that the data support, after a check of the requested ones.

    Those of every scorecard that the user did not name are not checked: `scorecard.suited` leaves them out, and a stream need
    not be read for that.
    """
    metrics = default_metrics() if metrics is None else metrics
    named = metrics.named if isinstance(metrics, AskedMetrics) else frozenset[str]()
    if getattr(data, "is_claims", False):
        metrics = _of_claims(metrics)
    for metric in metrics:
        if metric.n_classes is None or not metric.by_default or metric.label in named:
            metric.check(data)
    measurable = tuple(metric for metric in metrics if can_measure(data, metric))
    lost = next((metric.label for metric in metrics if metric not in measurable and metric.label in named), None)
    if lost is not None:
        raise InputError("metrics", f"be metrics that a {data.kind} supports", got=repr(lost), remedy="Pass logits and labels.")
    return measurable


def _of_claims(metrics: Sequence[Metric]) -> AskedMetrics:
    """The metrics of claims: they have one probability, so metrics of the second class would repeat those of the confidence."""
    named = metrics.named if isinstance(metrics, AskedMetrics) else frozenset[str]()
    kept = [metric for metric in metrics if metric.of_bins != "positive" or metric.label in named]
    added = [metric for metric in built_in().values() if metric.by_default_of_claims and metric not in kept]
    return AskedMetrics.from_metrics(sorted([*kept, *added], key=lambda metric: metric.order), named)


def in_tables(metrics: Sequence[Metric]) -> list[Metric]:
    """The metrics that tables show, in order."""
    return [metric for metric in metrics if metric.in_tables]
