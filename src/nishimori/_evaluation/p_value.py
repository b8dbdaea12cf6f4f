"""Whether a p-value rejects a hypothesis, and how that reads in a sentence."""

from nishimori._support.formatting import format_p_value
from nishimori._support.numbers import between


def is_rejected(p: float, level: float) -> bool:
    """Whether a p-value is below one minus a level of confidence, which is checked."""
    return p < 1 - between("level", level, 0, 1)


def verdict(hypothesis: str, p: float, level: float) -> str:
    """Whether a hypothesis is rejected at a level of confidence, with the p-value."""
    return f"{hypothesis} is {'' if is_rejected(p, level) else 'not '}rejected ({format_p_value(p)})"
