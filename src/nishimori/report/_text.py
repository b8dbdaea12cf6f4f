"""How numbers of the dictionary are written, on the page and in Markdown."""

from collections.abc import Callable, Mapping
from typing import Any

from nishimori._support.formatting import value_with_error as with_error

_INFINITE = "infinite"


def percent(value: float | None) -> str:
    """A share in percent."""
    return _INFINITE if value is None else f"{100 * value:.2f} %"


def points(value: float | None) -> str:
    """A difference of shares in points."""
    return "" if value is None else f"{100 * value:+.2f}"


def four(value: float | None) -> str:
    """A loss."""
    return _INFINITE if value is None else f"{value:.4f}"


def digits(value: float) -> str:
    """A temperature to four digits."""
    return f"{value:.4g}"


def whole(value: int) -> str:
    """A number of samples."""
    return f"{value:,}"


def level(value: float) -> str:
    """The level of an interval."""
    return f"{100 * value:g} %"


def sure(value: float) -> str:
    """A probability that may be close to 0 or 1, with enough digits to tell it from them."""
    if value < 0.01:
        return f"{100 * value:.2g} %"
    return f"{100 * value:.4f} %" if value > 0.99 else f"{100 * value:.2f} %"


def format_measurement(value: float | None, error: float | None) -> str:
    """A number with its error."""
    return _INFINITE if value is None else with_error(value, error)


def gap(value: float, error: float | None) -> str:
    """Confidence minus accuracy in points, with its error."""
    text = with_error(100 * value, None if error is None else 100 * error)
    return text if text.startswith("-") else f"+{text}"


_UNITS: dict[str, Callable[[float], str]] = {
    "number": digits,
    "percent": lambda value: f"{100 * value:.2f}",
    "points": lambda value: f"{100 * value:+.2f}",
}


def interval(row: Mapping[str, Any], name: str, unit: str) -> str:
    """The limits of a number, or nothing if they are not known."""
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    if low is None or high is None:
        return ""
    return f"({_UNITS[unit](low)} to {_UNITS[unit](high)})"


FILTERS: dict[str, Callable[..., str]] = {
    each.__name__: each for each in (percent, points, four, digits, whole, level, sure, format_measurement, interval)
}
