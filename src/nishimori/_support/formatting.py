"""Write numbers for people: significant digits follow from the standard error.

Every text of the library that shows a number (results, the shell, reports, pictures) takes it from here, so that the same
number reads the same everywhere. A minus sign is the real one, "−".
"""

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from math import ceil, inf, isfinite, isnan, log10
from typing import Any

# Numbers below and above these are written with a power of ten.
_SMALLEST_EXPONENT, _LARGEST_EXPONENT = -4, 6

# An error that is a smaller part of its value is rounding.
_ROUNDING = 1e-12

# Of a p-value beyond these a bound is written: no statistic is normal so far out, and nobody decides differently.
_LEAST_P_VALUE, _LARGEST_P_VALUE = 0.001, 0.995

# A share that is closer to 0 or 1 does not show in two decimals of percent.
_UNSEEN = 0.00005


MOST_NAMES = 12
"""How many names a message shows at most."""


def join_names(names: Sequence[Any]) -> str:
    """Up to twelve names, as text, the beginning of each."""
    shown = [f"{name!r:.60}" for name in names[:MOST_NAMES]]
    return (", ".join(shown) + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")) or "nothing"


def enumeration(names: Sequence[str], conjunction: str = "and") -> str:
    """Names in a sentence: "ec, ts and vector"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {conjunction} {names[-1]}"


def count(number: float) -> str:
    """A number of samples, such as "10,000"."""
    return f"{number + 0:,.0f}" if number == round(number) else number_text(number)


def round_up(number: float) -> float:
    """A number of samples that is only roughly known, rounded up to two digits."""
    unit = 10.0 ** max(int(log10(number)) - 1, 0)
    return ceil(number / unit) * unit


def number_text(value: float, digits: int = 4) -> str:
    """A number without a known error, to some significant digits: "0.5377", "1.2e-9", "0", "infinite"."""
    if not isfinite(value):
        return "unknown" if isnan(value) else "infinite" if value > 0 else "−infinite"
    if value == 0:
        return "0"
    exponent = _exponent(value, digits)
    if not _SMALLEST_EXPONENT <= exponent <= _LARGEST_EXPONENT:
        mantissa = _without_zeros(_rounded(value, exponent - digits + 1, exponent))
        return f"{_with_minus(mantissa)}e{exponent}"
    return _with_minus(_without_zeros(_rounded(value, exponent - digits + 1)))


def value_with_error(value: float, error: float | None, *, signed: bool = False) -> str:
    """A number with its standard error, both to two digits of the error, such as "1.613 ± 0.040"; without one, six digits.

    Of numbers that are very small or large the power of ten is written once: "(1.2 ± 3.4)e-7". With ``signed`` positive numbers
    have a sign, as differences do: "+0.031 ± 0.049".
    """
    if not isfinite(value) or not _is_error(value, error):
        text = number_text(value, 6)
        return f"+{text}" if signed and value > 0 and isfinite(value) else text
    assert error is not None, "which is what `_is_error` says"
    place = _exponent(error, 2) - 1  # of the last digit that is shown
    exponent = max(_exponent(value, 6) if value else place, place + 1)
    scientific = not _SMALLEST_EXPONENT <= exponent <= _LARGEST_EXPONENT
    power = exponent if scientific else 0
    number, uncertainty = _rounded(value, place, power), _rounded(error, place, power)
    if signed and float(number) and not number.startswith("-"):
        number = f"+{number}"
    text = f"{_with_minus(number)} ± {uncertainty}"
    return f"({text})e{power}" if scientific else text


def percent(share: float, decimals: int = 2) -> str:
    """A share without a known error, in percent; only exact 0 and 1 are shown as 0 and 100 %."""
    if not isfinite(share):
        return number_text(share)
    least = 10.0**-decimals
    if 0 < 100 * share < least / 2:
        return f"< {least:.{decimals}f} %"
    if 0 < 100 * (1 - share) < least / 2:
        return f"> {100 - least:.{decimals}f} %"
    return f"{100 * abs(share):g} %" if share in (0, 1) else f"{_with_minus(f'{100 * share:z.{decimals}f}')} %"


def percent_with_error(share: float, error: float | None) -> str:
    """A share in percent with its standard error, such as "16.29 ± 0.37 %"."""
    if error is None or not _is_error(share, error) or share + error < _UNSEEN or share - error > 1 - _UNSEEN:
        return percent(share)
    return f"{value_with_error(100 * share, 100 * error)} %"


def points_with_error(gap: float, error: float | None) -> str:
    """A difference between shares in percentage points, with sign and standard error, such as "+6.87 ± 0.32"."""
    if not isfinite(gap):
        return number_text(gap)
    if error is None or not _is_error(gap, error) or error < _UNSEEN:
        shown = round(100 * gap, 2)
        return _with_minus(f"{shown:+.2f}" if 0 < abs(shown) < 100 else f"{shown:+.0f}") if shown else "0"
    return value_with_error(100 * gap, 100 * error, signed=True)


def interval_text(low: float, high: float, error: float | None) -> str:
    """The ends of an interval to two digits of the standard error, such as "1.536 to 1.693"."""
    if error is None or not 0 < error < inf:
        return f"{number_text(low)} to {number_text(high)}"
    place = _exponent(error, 2) - 1
    if place < -7 or place > 3:
        return f"{number_text(low)} to {number_text(high)}"
    return " to ".join(_with_minus(_rounded(end, place)) if isfinite(end) else number_text(end) for end in (low, high))


def two_decimals(value: float) -> str:
    """A number in percent or points with its error shown elsewhere, such as in an interval."""
    return _with_minus(f"{value:z.2f}") if isfinite(value) else number_text(value)


def signed(value: float) -> str:
    """A change in percent or points, such as "−28", "−3.0" or "+0.12"; "0" if nothing changes."""
    decimals = 0 if abs(value) >= 10 else 1 if abs(value) >= 1 else 2
    text = _with_minus(f"{value:+.{decimals}f}")
    return text if float(text[1:]) else "0"


def p_value_text(p: float) -> str:
    """A p-value as it stands in a table, such as "0.043", "< 0.001" or "> 0.99"."""
    if p < _LEAST_P_VALUE:
        return f"< {_LEAST_P_VALUE}"
    return "> 0.99" if _LARGEST_P_VALUE <= p < 1 else f"{p:.2g}"


def format_p_value(p: float) -> str:
    """A p-value as it stands in a sentence, such as "p = 0.043" or "p < 0.001"."""
    text = p_value_text(p)
    return f"p {text}" if text[0] in "<>" else f"p = {text}"


def decimals_of(error: float) -> int:
    """How many decimals show two digits of a positive error."""
    return max(0, 1 - _exponent(error, 2))


def _is_error(value: float, error: float | None) -> bool:
    """Whether an error is known and informative."""
    return error is not None and isfinite(error) and error > _ROUNDING * abs(value)


def _exponent(value: float, digits: int) -> int:
    """The power of ten of a number that is rounded to some digits: 0.0996 is 1.0e-1."""
    return int(f"{value:.{digits - 1}e}".partition("e")[2])


def _rounded(value: float, place: int, power: int = 0) -> str:
    """A number over a power of ten, rounded at the place of another: 1234 at place 2 is "1200"."""
    exact = Decimal(repr(float(value)))
    can_quantize = exact.adjusted() - place < 27  # as many digits as `decimal` computes with
    number = exact.quantize(Decimal(1).scaleb(place), ROUND_HALF_EVEN) if can_quantize else exact
    shifted = number.scaleb(-power)
    return f"{shifted:z.{max(0, power - place)}f}"


def _without_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _with_minus(text: str) -> str:
    return text.replace("-", "−")
