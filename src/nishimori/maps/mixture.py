"""A mixture of three distributions: the calibrated one, the model's own, and the uniform one."""

from dataclasses import dataclass
from functools import reduce
from math import inf
from typing import Any, ClassVar

import numpy as np

from nishimori._support.arrays import Array, HostArray, in_double, namespace, on_device_of, row_max, row_sum
from nishimori._support.numbers import temperature as checked_temperature
from nishimori.errors import InputError
from nishimori.maps.map import WideMap, log_softmax_of_drops, numbers

# Weights that somebody typed or rounded; they are divided by their sum.
_ROUNDING, _EXACT = 1e-6, 1e-15


@dataclass(frozen=True, eq=False)
class Mixture(WideMap):
    """log p of the mixture p = w₁·softmax(z/T) + w₂·softmax(z) + w₃/K, where K is the number of unmasked classes of the row.

    Attributes
    ----------
    temperature : float
        T.
    weights : array of shape (3,)
        w₁ of the softmax at the temperature, w₂ of the softmax of the logits as they are, and w₃ of the uniform distribution;
        none is negative, and their sum is 1.
    """

    temperature: float
    weights: HostArray
    kind: ClassVar[str] = "mixture"
    in_words = "the mixture of probabilities"
    format_version: ClassVar[int] = 4
    keeps_predictions = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", checked_temperature(self.temperature))
        weights = numbers(self.weights, "weights")
        if weights.shape != (3,) or (weights < 0).any() or abs(weights.sum() - 1) > _ROUNDING:
            raise InputError("weights", "be three numbers from 0 to 1 whose sum is 1", got=f"{self.weights!r:.80}")
        if abs(weights.sum() - 1) > _EXACT:  # else a file that was written and read again would have other digits
            weights = weights / weights.sum()
            weights.flags.writeable = False
        object.__setattr__(self, "weights", weights)

    def apply_in_double(self, logits: Array) -> Array:
        """The logarithms of the mixed probabilities, accurate even if the probabilities are too small for their dtype."""
        wide = in_double(logits)
        with np.errstate(divide="ignore"):  # weights of zero
            return self.formula(wide, temperature=self.temperature, weights=on_device_of(self.weights, wide))

    @staticmethod
    def formula(logits: Array, *, temperature: Any, weights: Array) -> Array:
        """The logarithms, from arrays of one library and dtype, so that PyTorch can record and differentiate this."""
        xp = namespace(logits)
        live = logits > -inf
        parts = log_components(logits - row_max(logits), temperature)
        # A weight of zero has the logarithm -inf, and adds nothing. Masked classes would have gradients of NaN.
        shown = [xp.where(live, part, 0.0) + xp.log(weights[i]) for i, part in enumerate(parts)]
        return xp.where(live, reduce(xp.logaddexp, shown), -inf)


def log_components(drops: Array, temperature: float) -> tuple[Array, Array, Array]:
    """The log-probabilities of the three distributions, (n, K) each; masked classes have -inf in all of them."""
    xp = namespace(drops)
    live = xp.astype(drops > -inf, drops.dtype)
    uniform = xp.where(live > 0, -xp.log(row_sum(live)), drops)
    return log_softmax_of_drops(drops / temperature), log_softmax_of_drops(drops), uniform
