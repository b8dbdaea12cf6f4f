"""How numbers of the dictionary are written, on the page and in Markdown."""

from collections.abc import Mapping
from math import inf
from typing import Any

from nishimori._support import formatting
from nishimori._support.formatting import count, number_text, points_with_error, value_with_error


def percent(value: float | None) -> str:
    """A share in percent; None is infinite, as JSON has no such number."""
    return formatting.percent(inf if value is None else value)


def points(value: float | None) -> str:
    """A difference of shares in points."""
    return "" if value is None else points_with_error(value, None)


def four(value: float | None) -> str:
    """A loss."""
    return number_text(inf) if value is None else f"{value:.4f}"


def level(value: float) -> str:
    """The level of an interval."""
    return f"{100 * value:g} %"


def format_measurement(value: float | None, error: float | None) -> str:
    """A number with its error."""
    return value_with_error(inf if value is None else value, error)


def short_name(text: str, longest: int) -> str:
    """A name from the data, cut where it is too long."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


_UNITS = {"number": number_text, "percent": lambda value: f"{100 * value:.2f}", "points": points}


def interval(row: Mapping[str, Any], name: str, unit: str) -> str:
    """The limits of a number, or nothing if they are not known."""
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    if low is None or high is None:
        return ""
    return f"({_UNITS[unit](low)} to {_UNITS[unit](high)})"


FILTERS = {function.__name__: function for function in (percent, level, count, number_text, format_measurement, interval)}
