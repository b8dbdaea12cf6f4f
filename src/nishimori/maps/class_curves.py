"""One curve per class: a function of the probability of that class alone, with probabilities that sum to 1 afterwards."""

from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Literal

import numpy as np

from nishimori._support.arrays import Array, HostArray, in_double, like, on_host, row_max
from nishimori._support.numbers import one_of
from nishimori.errors import InputError
from nishimori.maps.map import BuiltInMap, numbers, softmax_of_drops

Interpolation = Literal["linear", "constant"]

# A probability that exceeds an edge by less than this part of it counts as on the edge: what float32 rounds off.
EDGE_ROUNDING = 2.0**-22


@dataclass(frozen=True, eq=False)
class ClassCurves(BuiltInMap):
    """A curve per class from its probability, the softmax of the logits, to a new one; the results are divided by their sum.

    For two classes there is one curve, for the second class; the first class gets the rest. Where all curves of a row give
    zero, its classes get equal probabilities. A masked class (-inf) stays masked. Arrays of other libraries than NumPy are
    computed on the host.

    Attributes
    ----------
    knots, values : tuple of arrays
        One array per curve. With linear interpolation, a curve has a value at each knot, and is constant outside the knots.
        With constant interpolation, it has one value between each two knots, which start with 0 and end with 1; a probability
        on a knot gets the value below it.
    interpolation : {"linear", "constant"}
        What is between the knots.
    """

    knots: tuple[HostArray, ...]
    values: tuple[HostArray, ...]
    interpolation: Interpolation
    kind: ClassVar[str] = "class_curves"
    in_words = "the curves of the classes"
    format_version: ClassVar[int] = 4

    def __post_init__(self) -> None:
        one_of("interpolation", self.interpolation, Interpolation)
        knots, values = _curves(self.knots, "knots"), _curves(self.values, "values")
        if len(knots) != len(values) or len(knots) == 2:
            raise InputError(
                "`knots` and `values`",
                "have one list per class, or one if there are two classes",
                got=f"{len(knots)} and {len(values)}",
            )
        for x, y in zip(knots, values, strict=True):
            self._check_curve(x, y)
        object.__setattr__(self, "knots", knots)
        object.__setattr__(self, "values", values)

    def _check_curve(self, knots: HostArray, values: HostArray) -> None:
        is_linear = self.interpolation == "linear"
        wanted = len(knots) if is_linear else len(knots) - 1
        if len(values) != wanted:
            raise InputError("values", f"have {wanted} numbers for {len(knots)} knots", got=len(values))
        steps = np.diff(knots)
        if (steps < 0).any() or (is_linear and (steps == 0).any()):
            raise InputError("knots", "increase", got=f"{knots.tolist()!r:.60}")
        if not is_linear and (knots[0] != 0 or knots[-1] != 1):
            raise InputError("knots", "start with 0 and end with 1", got=f"{knots[0]:g} and {knots[-1]:g}")

    @property
    def n_classes(self) -> int:
        return max(2, len(self.knots))

    def apply(self, logits: Array, groups: Any = None) -> Array:  # noqa: ARG002 - the same for all
        """The logarithms of the new probabilities."""
        if int(logits.shape[1]) != self.n_classes:
            raise InputError("logits", f"have {self.n_classes} classes, as the map has", got=int(logits.shape[1]))
        with np.errstate(divide="ignore"):  # zeros, which some curves have
            return like(np.log(self._normalised_probabilities(logits)), logits)

    def _normalised_probabilities(self, logits: Array) -> HostArray:
        """The new probabilities, in float64 on the host."""
        claimed, masked = class_probabilities(logits)
        if self.n_classes == 2:
            second = self._value(0, claimed[:, 1])
            calibrated = np.stack([1 - second, second], axis=1)
        else:
            calibrated = np.stack([self._value(c, column) for c, column in enumerate(claimed.T)], axis=1)
        calibrated[masked] = 0
        total = calibrated.sum(axis=1, keepdims=True)
        uniform = ~masked / (~masked).sum(axis=1, keepdims=True)
        probabilities: HostArray = np.divide(calibrated, total, out=uniform, where=total > 0)
        return probabilities

    def _value(self, place: int, claimed: HostArray) -> HostArray:
        knots, values = self.knots[place], self.values[place]
        return _interpolate(claimed, knots, values) if self.interpolation == "linear" else values[bin_of(claimed, knots)]


def class_probabilities(logits: Array) -> tuple[HostArray, HostArray]:
    """The softmax of the logits in float64 on the host, and which classes are masked: what curves are fitted to and read at."""
    host = on_host(in_double(logits))
    return softmax_of_drops(host - row_max(host)), host == -inf


def _interpolate(claimed: HostArray, knots: HostArray, values: HostArray) -> HostArray:
    """The values of a curve that is linear between its knots."""
    values_there: HostArray = np.interp(claimed, knots, values)
    lost = ~np.isfinite(values_there)  # between knots so close to zero that the slope overflows
    if lost.any():
        high = np.clip(np.searchsorted(knots, claimed[lost], side="right"), 1, len(knots) - 1)
        share = (claimed[lost] - knots[high - 1]) / (knots[high] - knots[high - 1])
        values_there[lost] = values[high - 1] + np.clip(share, 0, 1) * (values[high] - values[high - 1])
    return values_there


def bin_of(claimed: HostArray, edges: HostArray) -> HostArray:
    """The number of the bin of each probability; one on an edge, or above it by no more than rounding, is in the bin below."""
    places: HostArray = np.searchsorted(edges[1:-1] * (1 + EDGE_ROUNDING), claimed)
    return places


def _curves(values: Any, name: str) -> tuple[HostArray, ...]:
    """One array of numbers between 0 and 1 per curve."""
    if not isinstance(values, list | tuple) or not values:
        raise InputError(name, "be a list of lists of numbers", got=f"{values!r:.60}")
    curves = tuple(numbers(curve, name) for curve in values)
    for curve in curves:
        if curve.ndim != 1 or curve.min() < 0 or curve.max() > 1:
            raise InputError(name, "hold lists of numbers between 0 and 1", got=f"{curve.tolist()!r:.60}")
    return curves
