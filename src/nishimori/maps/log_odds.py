"""A function of the log-odds of two classes: what calibrators of binary scores beyond an affine map choose."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Self

import numpy as np

from nishimori._support.arrays import Array, in_double, namespace
from nishimori.errors import InputError
from nishimori.maps.map import WideMap, number_in, numbers

# Probabilities of infinite log-odds would be NaN.
_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class LogOdds(WideMap):
    """u = (0, f(s)), where s = z_1 − z_0 are the log-odds of the second class and f(s) = square·s² + a·ln p − b·ln(1 − p) + c.

    p = 1/(1 + exp(−s)) is the probability that the scores give to the second class. With a = b the middle terms are a·s.

    Attributes
    ----------
    a, b : float
        The slopes of f far below and far above s = 0, if ``square`` is zero.
    c : float
        What is added.
    square : float
        What multiplies s².
    """

    a: float
    b: float
    c: float
    square: float = 0.0
    kind: ClassVar[str] = "log_odds"
    format_version: ClassVar[int] = 4

    def __post_init__(self) -> None:
        for name, value in self.parameters.items():
            if np.ndim(value):
                raise InputError(name, "be a number", got=f"{value!r:.60}")
            object.__setattr__(self, name, float(numbers(value, name)))

    @property
    def n_classes(self) -> int:
        return 2

    @property
    def in_words(self) -> str:
        return "the function of the log-odds"

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"a": self.a, "b": self.b, "c": self.c, "square": self.square}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        """The map that a file describes."""
        return cls(**{name: number_in(parameters, name) for name in ("a", "b", "c", "square")})

    def apply_in_double(self, logits: Array) -> Array:
        """Zero and the calibrated log-odds of each row, which are finite however large the scores are."""
        s = log_odds(logits)
        xp = namespace(s)
        log_p, minus_log_rest = log_sigmoids(s)
        with np.errstate(over="ignore"):
            # Not square * s**2: that is 0 times infinity for a square of zero and a score of 1e200.
            mapped = self.square * s * s + (self.a * log_p + self.b * minus_log_rest + self.c)
        mapped = xp.clip(mapped, -_LARGEST, _LARGEST)
        return xp.stack([xp.zeros_like(mapped), mapped], axis=1)


def log_odds(logits: Array) -> Array:
    """The log-odds of the second of two classes in each row, in float64."""
    if int(logits.shape[1]) != 2:
        raise InputError("logits", "have two classes, as the map has", got=int(logits.shape[1]))
    wide = in_double(logits)
    if bool(namespace(wide).any(wide == -inf)):
        raise InputError(
            "logits",
            "not have masked classes (-inf), because log-odds would be infinite",
            remedy="Leave out the rows with a single possible class.",
        )
    return wide[:, 1] - wide[:, 0]


def log_sigmoids(s: Array) -> tuple[Array, Array]:
    """Ln p and −ln(1 − p) for p = 1/(1 + exp(−s)), with all digits also where p rounds to 0 or 1."""
    xp = namespace(s)
    rest = xp.log1p(xp.exp(-xp.abs(s)))
    zero = xp.zeros_like(s)
    return xp.where(s < 0, s, zero) - rest, xp.where(s > 0, s, zero) + rest
