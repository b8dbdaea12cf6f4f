"""One temperature for all rows."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nishimori._kernels.kernel import softmax
from nishimori._rows.scores import Scores
from nishimori._support.arrays import Array, in_double, is_half, like, numpy_view, on_device_of, row_max, to_compute
from nishimori._support.numbers import temperature as checked_temperature
from nishimori.maps.map import BuiltInMap, Map

# Float32 holds this temperature and its inverse with all their digits.
_LEAST = 1e-30


@dataclass(frozen=True)
class Temperature(BuiltInMap):
    """Division by one temperature."""

    temperature: float
    kind: ClassVar[str] = "temperature"
    format_version: ClassVar[int] = 2
    keeps_predictions = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", checked_temperature(self.temperature))

    def apply(self, logits: Array, groups: Any = None) -> Array:  # noqa: ARG002 - the same for all
        """``logits / temperature``."""
        with np.errstate(over="ignore"):  # beyond the range of the dtype, as in float16 beyond 65,504: infinite
            wide = to_compute(logits) if _LEAST < self.temperature < 1 / _LEAST else in_double(logits)
            return like(divide(wide, self.temperature), logits)

    @property
    def in_words(self) -> str:
        return f"T = {self.temperature:.4g}"

    def probabilities(self, logits: Array, groups: Any = None) -> Array:
        """The softmax of the divided logits, by a kernel where one has it."""
        softmaxed = softmax(logits, 1 / self.temperature)
        # Kernels do not carry NaN through, as arithmetic does; masked classes are all right.
        if softmaxed is None or (softmaxed[1] and not np.isfinite(row_max(logits)).all()):
            return super().probabilities(logits, groups)
        return softmaxed[0]

    def probabilities_at_once(self, scores: Scores) -> Array | None:
        """The probabilities of all rows, which are checked on the way; None where no kernel computes them."""
        if scores.input != "logits" or scores.is_binary_score or scores.is_scattered or is_half(scores.array):
            return None
        softmaxed = softmax(numpy_view(scores.array), 1 / self.temperature)
        if softmaxed is None:
            return None
        probabilities, is_unusual = softmaxed
        if is_unusual:
            scores.check_all()
        return on_device_of(probabilities, scores.array)

    def exponents(self, logits: Array, groups: Any = None) -> Array:  # noqa: ARG002 - the same for all
        """The difference first: a quotient of large logits would lose its digits."""
        drops = logits - row_max(logits)
        return drops if self.temperature == 1 else self.apply(drops)


def divide(logits: Array, temperature: Any) -> Array:
    """Logits divided by a temperature, which may be a tensor that is trained, traced or exported."""
    return logits / temperature


def temperature_of(map_: Map) -> float | None:
    """The temperature of a map that only divides by one; None for a map that does more."""
    return map_.temperature if isinstance(map_, Temperature) else None
