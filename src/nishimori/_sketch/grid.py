"""The temperatures at which a sketch keeps sums, and interpolation between them.

The nodes are β = 2^(j/4) for whole numbers j, so T = 1 is one of them and every fourth node has twice the β of the one four
before it; a finer grid has more nodes per octave. Between nodes a function of log β is the polynomial through its values, and
derivatives where they are known, at the nearest nodes. For two classes the gap of a row is analytic in log β up to an imaginary
part of π/2, nine times the distance of two nodes, which is why few nodes give many digits. For very many classes, the sum of
their weights can vanish at a complex β much closer to the real axis: 100,000 classes need eight nodes per octave.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, factorial, floor, log, log2
from typing import Any

import numpy as np

from nishimori._support.arrays import HostArray
from nishimori._support.numbers import temperature as checked_temperature
from nishimori._support.numbers import whole
from nishimori.errors import InputError

PER_OCTAVE = 4
"""The default number of nodes from one β to twice that β."""

_MOST_PER_OCTAVE = 64

# Beyond these, powers of drops times β leave the range of float64; no network needs a tenth of it.
_LOWEST, _HIGHEST = 1e-9, 1e9


@dataclass(frozen=True)
class Grid:
    """Nodes β = 2^(j/``per_octave``), ``first`` <= j <= ``last``."""

    first: int
    last: int
    per_octave: int = PER_OCTAVE

    @classmethod
    def over(cls, temperatures: Any, per_octave: Any = PER_OCTAVE) -> "Grid":
        """The smallest grid that contains all temperatures between two."""
        must = "be the lowest and the highest temperature that a fit can find"
        try:
            low, high = (checked_temperature(temperature, "temperatures") for temperature in temperatures)
        except (TypeError, ValueError):
            raise InputError("temperatures", f"{must}, such as (0.05, 20)", got=repr(temperatures)) from None
        if not (low >= _LOWEST and 2 * low <= high <= _HIGHEST):
            limits = f"from {_LOWEST:g} to {_HIGHEST:g} and the highest at least twice the lowest"
            raise InputError("temperatures", f"{must}, {limits}", got=repr(temperatures))
        density = whole("nodes_per_octave", per_octave, PER_OCTAVE, _MOST_PER_OCTAVE)
        # A hundredth of a node of slack, so that the range of a grid gives the same grid again.
        return cls(floor(-density * log2(high) + 0.01), ceil(-density * log2(low) - 0.01), density)

    @property
    def is_possible(self) -> bool:
        """Whether a grid from a file could come from `over`."""
        density = self.per_octave
        return PER_OCTAVE <= density <= _MOST_PER_OCTAVE and -50 * density < self.first < self.last < 50 * density

    @property
    def step(self) -> float:
        """The distance between two nodes in log β."""
        return log(2) / self.per_octave

    @cached_property
    def betas(self) -> tuple[float, ...]:
        return self._between(self.first, self.last)

    @property
    def beyond(self) -> tuple[float, ...]:
        """Twice the β of the nodes of the last octave."""
        return self._between(self.last + 1, self.last + self.per_octave)

    def _between(self, first: int, last: int) -> tuple[float, ...]:
        """The nodes from one number to another; nodes an octave apart differ by a factor of exactly two."""
        density = self.per_octave
        return tuple(2.0 ** (j // density) * 2.0 ** (j % density / density) for j in range(first, last + 1))

    @property
    def temperatures(self) -> tuple[float, float]:
        """The lowest and the highest temperature."""
        return 1 / self.betas[-1], 1 / self.betas[0]

    def place(self, log_beta: float) -> float:
        """The position of a log β, counted in nodes from the first."""
        return log_beta / self.step - self.first

    def log_beta(self, place: float) -> float:
        return (place + self.first) * self.step

    def holds(self, temperature: float) -> bool:
        """Whether a temperature lies in the range, including its ends despite rounding."""
        return -1e-9 <= self.place(-log(temperature)) <= self.last - self.first + 1e-9

    def nearest(self, place: float, number: int) -> list[int]:
        """The positions of the ``number`` nodes around a place, fewer if the grid has fewer."""
        n_nodes = self.last - self.first + 1
        number = min(number, n_nodes)
        start = min(max(floor(place) - number // 2 + 1, 0), n_nodes - number)
        return list(range(start, start + number))


@dataclass(frozen=True)
class Polynomial:
    """The polynomial through values and derivatives at some places, in Newton's form."""

    knots: tuple[float, ...]
    coefficients: tuple[float, ...]

    @classmethod
    def through(cls, places: Sequence[float], jets: HostArray) -> "Polynomial":
        """The polynomial through (n, m) numbers: at each of n places the value and the first m - 1 derivatives."""
        depth = jets.shape[1]
        knots = np.repeat(np.asarray(places, dtype=float), depth)
        column = np.repeat(jets[:, 0], depth)
        coefficients = [float(column[0])]
        for order in range(1, len(knots)):
            width = knots[order:] - knots[:-order]
            same = width == 0
            # Where all knots of a divided difference are one place it is that derivative over a factorial.
            derivative = np.repeat(jets[:, min(order, depth - 1)], depth)[: len(width)] / factorial(order)
            column = np.where(same, derivative, np.diff(column) / np.where(same, 1.0, width))
            coefficients.append(float(column[0]))
        return cls(tuple(knots.tolist()), tuple(coefficients))

    def __call__(self, place: float) -> float:
        return self.with_slope(place)[0]

    def with_slope(self, place: float) -> tuple[float, float]:
        """The value and the derivative."""
        value = slope = 0.0
        for knot, coefficient in zip(self.knots[::-1], self.coefficients[::-1], strict=True):
            slope = slope * (place - knot) + value
            value = value * (place - knot) + coefficient
        return value, slope
