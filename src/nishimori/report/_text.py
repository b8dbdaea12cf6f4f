"""How numbers of the dictionary are written, on the page and in Markdown."""

from collections.abc import Callable, Mapping
from typing import Any

from nishimori._support.formatting import points_with_error
from nishimori._support.formatting import value_with_error as with_error

_INFINITE = "infinite"

# The least that two decimals of a percentage show.
_LEAST = 1e-4


def percent(value: float | None) -> str:
    """A share in percent."""
    return _INFINITE if value is None else f"{100 * value:.2f} %"


def points(value: float | None) -> str:
    """A difference of shares in points."""
    return "" if value is None else points_with_error(value, None)


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


def share(value: float) -> str:
    """A probability in percent; one that two decimals cannot tell from 0 or 1 is shown as a limit."""
    if 0 < value < _LEAST:
        return f"< {100 * _LEAST:g} %"
    return f"> {100 * (1 - _LEAST):g} %" if 1 - _LEAST < value < 1 else f"{100 * value:.2f} %"


def rounded(value: float) -> str:
    """A share in percent as a sentence has it: without decimals from 10 % to 99 %."""
    if 0.1 <= value <= 0.99 or value in (0, 1):
        return f"{100 * value:.0f} %"
    return f"{100 * value:.1f} %" if _LEAST <= value <= 1 - _LEAST else share(value)


def format_measurement(value: float | None, error: float | None) -> str:
    """A number with its error."""
    return _INFINITE if value is None else with_error(value, error)


def short_name(text: str, longest: int) -> str:
    """A name from the data, cut where it is too long."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


_UNITS: dict[str, Callable[[float], str]] = {
    "number": digits,
    "percent": lambda value: f"{100 * value:.2f}",
    "points": points,
}


def interval(row: Mapping[str, Any], name: str, unit: str) -> str:
    """The limits of a number, or nothing if they are not known."""
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    if low is None or high is None:
        return ""
    return f"({_UNITS[unit](low)} to {_UNITS[unit](high)})"


FILTERS: dict[str, Callable[..., str]] = {
    function.__name__: function
    for function in (percent, points, four, digits, whole, level, share, format_measurement, interval)
}
