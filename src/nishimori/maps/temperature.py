"""One temperature for all rows."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nishimori._kernels.kernel import softmax
from nishimori._rows.scores import Scores
from nishimori._support.arrays import Array, is_half, numpy_view, on_device_of, row_max
from nishimori._support.numbers import temperature as checked_temperature
from nishimori.maps.map import Division, Map


@dataclass(frozen=True)
class Temperature(Division):
    """Division by one temperature."""

    temperature: float
    kind: ClassVar[str] = "temperature"
    format_version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", checked_temperature(self.temperature))

    def divisor(self, logits: Array, groups: Any) -> float:  # noqa: ARG002 - the same for all
        """The temperature."""
        return self.temperature

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


def temperature_of(map_: Map) -> float | None:
    """The temperature of a map that only divides by one; None for a map that does more."""
    return map_.temperature if isinstance(map_, Temperature) else None
