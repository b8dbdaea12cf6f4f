"""The one table of metrics: everything that measures or shows metrics iterates over it, and nothing else lists them.

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
    modules = [import_module(f"{folder.__name__}.{each.name}") for each in iter_modules(folder.__path__)]
    classes = [
        each
        for module in modules
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Metric) and each is not Metric and each.__module__ == module.__name__
    ]
    return {each.name: each() for each in sorted(classes, key=lambda each: (each.order, each.name))}


def register(metric: Metric) -> None:
    """Give a metric of one's own its name in this process, so that it can be asked for like a built-in one.

    Parameters
    ----------
    metric : Metric
        Its ``name`` must be new.

    Notes
    -----
    A package adds its metrics to every process with entry points in the group ``nishimori.metrics``. The shell also takes
    ``package.module:Name``.

    Examples
    --------
    >>> import nishimori
    >>> class Hesitation(nishimori.Metric):
    ...     name = "hesitation"
    ...     def of_rows(self, predictions):
    ...         return 1 - predictions.confidence
    >>> nishimori.metrics.register(Hesitation())
    >>> round(nishimori.metrics.hesitation([[2.0, 0.0]], [0]), 3)
    0.119
    """
    found = as_metric(metric)
    if found is None:
        raise InputError("metric", "be a nishimori.Metric", got=f"{metric!r:.60}")
    taken = _find(found.name)
    if taken is not None and type(taken) is not type(found):
        other = type(taken).__name__
        raise InputError(
            "The metric's name", "be new", got=f"{found.name!r}, which is the name of {other}", remedy="Choose another."
        )
    if found.name not in built_in():
        _registered[found.name] = found


def names() -> tuple[str, ...]:
    """All names, those of entry points last; nothing is imported for those."""
    return tuple(dict.fromkeys([*built_in(), *_registered, *(each.name for each in entry_points(GROUP))]))


def default_metrics() -> tuple[Metric, ...]:
    """The metrics that every scorecard has: those that need no more than the sums that are there anyway."""
    return tuple(each for each in built_in().values() if each.by_default)


def find_metric(name: str, argument: str = "metrics") -> Metric:
    """The metric that a user typed, such as "nll", "top_n_accuracy(top_n=3)" or "package.module:Name"; ``argument`` held it."""
    plain, parameters = _parsed(name, argument)
    found = _checked(import_object(plain), plain) if ":" in plain else _find(plain)
    if found is None:
        close = get_close_matches(plain.lower(), names(), 1)
        remedy = f"Did you mean {close[0]!r}?" if close else ""
        raise InputError(argument, f"be one of {', '.join(names())}, or package.module:Name", got=repr(name), remedy=remedy)
    if not parameters:
        return found
    known: list[str] = [each.name for each in fields(found)] if is_dataclass(found) else []
    if not known:
        remedy = "Make them fields of a frozen dataclass." if ":" in plain or plain not in built_in() else ""
        raise InputError(
            f"The metric {plain}", "be written without parameters, of which it has none", got=repr(name), remedy=remedy
        )
    if not set(parameters) <= set(known):
        raise InputError(f"The metric {plain}", f"have the parameters {', '.join(known)}", got=repr(name))
    changed: Metric = replace(found, **parameters)  # type: ignore[type-var]
    return changed


def _parsed(text: str, argument: str) -> tuple[str, dict[str, Any]]:
    """The name and the parameters of "name(parameter=value, ...)"."""
    name, bracket, rest = text.partition("(")
    if not bracket:
        return text.strip(), {}
    try:
        call = ast.parse(f"f({rest}", mode="eval").body
        assert isinstance(call, ast.Call)
        assert not call.args
        return name.strip(), {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    except (SyntaxError, ValueError, AssertionError):
        raise InputError(argument, "have parameters as in top_n_accuracy(top_n=3)", got=repr(text)) from None


def _find(name: str) -> Metric | None:
    known = built_in().get(name) or _registered.get(name)
    if known is not None:
        return known
    for each in entry_points(GROUP):
        if each.name == name:
            _registered[name] = _checked(load_entry_point(each, "metric"), name)
            return _registered[name]
    return None


def _checked(target: Any, name: str) -> Metric:
    found = as_metric(target)
    if found is None:
        raise InputError(f"The metric {name!r}", "be a nishimori.Metric", got=f"{target!r:.60}")
    return found


def as_metric(given: Any) -> Metric | None:
    """The metric that a metric, its class or its function stands for; None for anything else."""
    if isinstance(given, type) and issubclass(given, Metric):
        try:
            return given()
        except TypeError as error:
            raise InputError(
                "metrics", "hold metrics", got=f"the class {given.__name__}", remedy=f"Call it: {error}."
            ) from None
    found = given if isinstance(given, Metric) else getattr(given, "metric", None)
    return found if isinstance(found, Metric) else None


class AskedMetrics(tuple[Metric, ...]):
    """The metrics of a scorecard, of which some are there because a user named them."""

    named: frozenset[str]

    @classmethod
    def of(cls, metrics: Iterable[Metric], named: Iterable[str]) -> "AskedMetrics":
        """``named`` are the labels of those that were asked for."""
        found = cls(metrics)
        found.named = frozenset(named)
        return found

    def with_others(self, *metrics: Metric) -> "AskedMetrics":
        """These and others, which nobody named."""
        return AskedMetrics.of((*self, *metrics), self.named)


def asked_metrics(asked: Any, argument: str = "metrics") -> AskedMetrics:
    """The metrics of every scorecard and those that a user asked for besides: names, metrics, or functions of metrics."""
    if asked is None:
        return AskedMetrics.of(default_metrics(), ())
    if isinstance(asked, str) or not isinstance(asked, Iterable):
        remedy = f"Pass `[{asked!r}]`." if isinstance(asked, str) else ""
        raise InputError(argument, "be a list of metrics or their names", got=f"{asked!r:.60}", remedy=remedy)
    found = {each.label: each for each in default_metrics()}
    named = []
    for each in asked:
        metric = find_metric(each, argument) if isinstance(each, str) else as_metric(each)
        if metric is None:
            raise InputError(argument, "hold metrics, their functions or their names", got=f"{each!r:.60}")
        if metric.of_bins is not None and metric.label != metric.name:
            said = f"{setting('n_bins')} and {setting('strategy')} choose the bins"
            raise InputError(argument, f"have {metric.name!r} without parameters: {said}", got=repr(metric.label))
        if found.get(metric.label, metric) != metric:
            got = f"two metrics called {metric.label!r}"
            raise InputError(argument, "have different names", got=got, remedy="Give one of them another name.")
        found[metric.label] = metric
        named.append(metric.label)
    return AskedMetrics.of(found.values(), named)


@question("does not tell metrics")
def tells(data: Any, metric: Metric) -> bool:  # noqa: ARG001 - rows tell all
    """Say whether data of this kind tell a metric."""
    return True


def checked_metrics(metrics: Sequence[Metric], data: Any) -> tuple[Metric, ...]:
    """The metrics without those that the data do not tell, after a check of those that were asked for.

    Those of every scorecard that nobody named are not checked: `MetricPlan.suited` leaves them out, and a stream need not be
    read for that.
    """
    named = metrics.named if isinstance(metrics, AskedMetrics) else frozenset[str]()
    for each in metrics:
        if each.n_classes is None or not each.by_default or each.label in named:
            each.check(data)
    told = tuple(each for each in metrics if tells(data, each))
    lost = next((each.label for each in metrics if each not in told and each.label in named), None)
    if lost is not None:
        raise InputError("metrics", f"be what a {data.kind} keeps", got=repr(lost), remedy="Pass logits and labels.")
    return told


def suited_metrics(metrics: Sequence[Metric], data: Any) -> tuple[Metric, ...]:
    """The metrics that data which have been read can have."""
    return tuple(each for each in checked_metrics(metrics, data) if each.suits(data.n_classes))


def in_tables(metrics: Sequence[Metric]) -> list[Metric]:
    """Those that tables show, in their order."""
    return [each for each in metrics if each.in_tables]
