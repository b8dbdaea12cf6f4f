"""Metrics as functions of data: what `nishimori.metrics` holds. Signature and docstring are made of the metric's class."""

import re
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass, replace
from inspect import Parameter, Signature, cleandoc
from typing import Any

from nishimori._evaluation.metrics.metric import Metric
from nishimori._rows.entry import open_rows
from nishimori._rows.options import ONE_NUMBER, takes_rows
from nishimori._support.numbers import temperature as checked_temperature
from nishimori.errors import InputError

_BEFORE = """logits, labels
    Scores and true classes, as for `rows`.
"""
_AFTER = """temperature : float
    Divide the logits by this first, so that one array serves before and after calibration.
**options
    What is said about the data: see `rows`.
"""


def function_of(metric: Metric) -> Callable[..., float]:
    """The function that computes a metric of data, with the parameters of the metric as keywords.

    It knows its metric as ``metric``, so that `evaluate` and others take the function as well.
    """
    own: dict[str, Any] = {each.name: each.default for each in fields(metric)} if is_dataclass(metric) else {}

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
    made = takes_rows(refuses=ONE_NUMBER)(function)
    made.metric = metric  # type: ignore[attr-defined]
    return made


def _docstring(text: str) -> str:
    """The docstring of the class with the arguments of every metric among its parameters."""
    head = "Parameters\n----------\n"
    if head in text:
        # Its own parameters end where the next section begins, or at the end.
        begin = text.index(head) + len(head)
        end = next((found.start() for found in re.finditer(r"\n\n(?=\w[^\n]*\n-+\n)|\Z", text[begin:])), 0) + begin
        return f"{text[:begin]}{_BEFORE}{text[begin:end]}\n{_AFTER.rstrip()}{text[end:]}"
    section = re.search(r"^\w[^\n]*\n-{3,}$", text, re.MULTILINE)
    place = section.start() if section else len(text)
    return f"{text[:place].rstrip()}\n\n{head}{_BEFORE}{_AFTER}\n{text[place:]}".rstrip()


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
