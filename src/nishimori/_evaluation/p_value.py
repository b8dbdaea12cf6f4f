"""Probabilities of statistics that are normal if the hypothesis is true, and how they read in a sentence."""

from nishimori._support.numbers import between

# Smaller p-values are not accurate, because no test statistic is normal so far out.
_SMALLEST_SHOWN = 1e-300

# From here on a p-value reads better as a decimal fraction than as a power of ten.
_LEAST_DECIMAL = 1e-4


def format_p_value(p: float) -> str:
    """A p-value with the digits that matter, such as "p = 3e-12" or "p = 0.043"."""
    if p < _SMALLEST_SHOWN:
        return f"p < {_SMALLEST_SHOWN:g}"
    return f"p = {p:.2g}" if p >= _LEAST_DECIMAL else f"p = {p:.0e}".replace("e-0", "e-")


def is_rejected(p: float, level: float) -> bool:
    """Whether a p-value is below one minus a level of confidence, which is checked."""
    return p < 1 - between("level", level, 0, 1)


def verdict(hypothesis: str, p: float, level: float) -> str:
    """Whether a hypothesis is rejected at a level of confidence, with the p-value."""
    return f"{hypothesis} is {'' if is_rejected(p, level) else 'not '}rejected ({format_p_value(p)})"
