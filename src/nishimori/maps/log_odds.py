"""A map of the log-odds of two classes, for binary calibrators that are not affine."""

from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np

from nishimori._support.arrays import Array, in_double, namespace
from nishimori.errors import InputError
from nishimori.maps.map import WideMap, numbers


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
    n_classes = 2
    in_words = "the function of the log-odds"
    format_version: ClassVar[int] = 4

    def __post_init__(self) -> None:
        for name, value in self.parameters.items():
            if np.ndim(value):
                raise InputError(name, "be a number", got=f"{value!r:.60}")
            object.__setattr__(self, name, float(numbers(value, name)))

    def apply_in_double(self, logits: Array) -> Array:
        """The `formula` in float64; refuses masks and another number of classes."""
        return self.formula(_two_classes(logits), **self.parameters)

    @staticmethod
    def formula(logits: Array, *, a: Any, b: Any, c: Any, square: Any) -> Array:
        """Zero and the calibrated log-odds of each row, in the dtype of the scores; finite for scores of any size.

        All are arrays of one library. Nothing is checked, so that PyTorch can record it in a graph.
        """
        s, xp = logits[:, 1] - logits[:, 0], namespace(logits)
        log_p, minus_log_rest = log_sigmoids(s)
        # Not square * s**2: that is 0 times infinity for a square of zero and a large score.
        mapped = square * s * s + (a * log_p + b * minus_log_rest + c)
        largest = float(xp.finfo(mapped.dtype).max)  # probabilities of infinite log-odds would be NaN
        mapped = xp.clip(mapped, -largest, largest)
        return xp.stack([xp.zeros_like(mapped), mapped], axis=1)


def log_odds(logits: Array) -> Array:
    """The log-odds of the second of two classes in each row, in float64."""
    wide = _two_classes(logits)
    return wide[:, 1] - wide[:, 0]


def _two_classes(logits: Array) -> Array:
    """The logits in float64, if there are two classes, and none is masked."""
    if int(logits.shape[1]) != 2:
        raise InputError("logits", "have two classes, as the map has", got=int(logits.shape[1]))
    wide = in_double(logits)
    if bool(namespace(wide).any(wide == -inf)):
        raise InputError(
            "logits",
            "not have masked classes (-inf), because log-odds would be infinite",
            remedy="Leave out the rows with a single possible class.",
        )
    return wide


def log_sigmoids(s: Array) -> tuple[Array, Array]:
    """Ln p and −ln(1 − p) for p = 1/(1 + exp(−s)), accurate even if p rounds to 0 or 1."""
    xp = namespace(s)
    rest = xp.log1p(xp.exp(-xp.abs(s)))
    zero = xp.zeros_like(s)
    return xp.minimum(s, zero) - rest, xp.maximum(s, zero) + rest  # not `where`, whose derivative at s = 0 would be zero
