"""What calibration does to logits: a frozen map with named parameters. It is what calibrators produce and what is saved."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nishimori._array import Array, beside, in_double, is_writable, like, namespace, row_max, row_sum, to_compute, with_rows
from nishimori._numbers import temperature as checked_temperature
from nishimori._scores import Scores
from nishimori.errors import InputError

# Float32 holds this temperature and its inverse with all their digits.
_LEAST = 1e-30


class Map(ABC):
    """A function from logits to logits; the softmax of its result is calibrated.

    Attributes
    ----------
    kind : str
        Its name on disk.
    """

    kind: ClassVar[str]

    @abstractmethod
    def apply(self, logits: Array, groups: Any = None) -> Array:
        """The calibrated logits of each row, in the array library and dtype of ``logits``.

        ``groups`` name the group of each row, for maps that treat groups differently.
        """

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """The parameters by name, as plain numbers and lists."""

    def exponents(self, logits: Array) -> Array:
        """Calibrated logits minus the largest of their row: what the softmax exponentiates."""
        mapped = self.apply(logits)
        return mapped - row_max(mapped)

    def probabilities(self, logits: Array) -> Array:
        """The softmax of the calibrated logits."""
        exponents = self.exponents(logits)
        weights = namespace(exponents).exp(exponents)
        return weights / row_sum(weights)

    def log_probabilities(self, logits: Array) -> Array:
        """The logarithms of the same, exact also where those round to 0 or 1."""
        exponents = self.exponents(logits)
        xp = namespace(exponents)
        return exponents - xp.log(row_sum(xp.exp(exponents)))


@dataclass(frozen=True)
class Temperature(Map):
    """Division by one temperature."""

    temperature: float
    kind: ClassVar[str] = "temperature"

    def apply(self, logits: Array, groups: Any = None) -> Array:  # noqa: ARG002 - the same for all
        """``logits / temperature``."""
        with np.errstate(over="ignore"):  # beyond the range of the dtype, as in float16 beyond 65,504: infinite
            wide = to_compute(logits) if _LEAST < self.temperature < 1 / _LEAST else in_double(logits)
            return like(divided(wide, self.temperature), logits)

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"temperature": self.temperature}

    def exponents(self, logits: Array) -> Array:
        """The difference first: a quotient of large logits would lose its digits."""
        drops = logits - row_max(logits)
        return drops if self.temperature == 1 else self.apply(drops)


def divided(logits: Array, temperature: Any) -> Array:
    """What a temperature does to logits; also where it is a tensor that is trained, traced or exported."""
    return logits / temperature


def temperature_of(map_: Map) -> float | None:
    """The temperature of a map that only divides by one; None for a map that does more."""
    return map_.temperature if isinstance(map_, Temperature) else None


def in_blocks(given: Scores, rule: Callable[[slice | None], Array]) -> Array:
    """``rule`` of all rows of ``given`` in one array of their library, filled a block at a time: no table is held besides it.

    ``rule`` gives the result of each row of a block, or of all rows if it gets None, as where a library cannot fill arrays. It
    takes the rows from `Scores.logits` or `Scores.table`, which check them.
    """
    blocks = list(given.blocks()) if is_writable(given.array) else [None]
    result = first = rule(blocks[0])
    if len(blocks) > 1:
        result = with_rows(first, given.n_samples)
        result[blocks[0], ...] = first
        for rows in blocks[1:]:
            result[rows, ...] = rule(rows)
    return beside(result, given.array) if type(result) is np.ndarray else result


KINDS: tuple[str, ...] = (Temperature.kind,)
"""What can be saved and loaded."""


def from_parameters(kind: Any, parameters: Any) -> Map:
    """The map that a file describes; raises `InputError` if it describes none."""
    if kind not in KINDS:
        raise InputError(f"`kind` must be one of {', '.join(KINDS)}, got {kind!r}.")
    if not isinstance(parameters, dict) or set(parameters) != {"temperature"}:
        raise InputError(f"`parameters` must hold a temperature, got {parameters!r}.")
    value = parameters["temperature"]
    if type(value) not in (int, float):
        raise InputError(f"`temperature` must be a finite positive number, got {value!r}.")
    return Temperature(checked_temperature(value))
