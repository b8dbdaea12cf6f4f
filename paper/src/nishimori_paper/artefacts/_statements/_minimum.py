"""How far chosen temperatures are from the one with the lowest test ECE, and how well test images determine that one."""

from collections.abc import Callable, Mapping
from functools import partial
from math import hypot
from typing import Any

import numpy as np
from scipy.special import softmax

from nishimori._support.arrays import HostArray
from nishimori.data import Labelled
from nishimori_paper._artefact import Pieces, Scale
from nishimori_paper._measured import SANDWICH, network, scores_by_kind, temperature_errors, validations
from nishimori_paper._names import NetworkName
from nishimori_paper.artefacts._statements._precision import measured_networks

_METHODS = ("ts", "ec")
_PREFIX = "minimum "
_BINS = 15
_STEP = 0.01


def minimum_pieces(scale: Scale) -> Mapping[str, Callable[[], Any]]:
    """One piece per network."""
    return {f"{_PREFIX}{name}": partial(_piece, name, scale) for name in measured_networks()}


def minima(done: Pieces) -> dict[str, Any]:
    """The finished pieces by network."""
    return {key.removeprefix(_PREFIX): value for key, value in done.items() if key.startswith(_PREFIX)}


def distance(piece: Mapping[str, Any], kind: str) -> float:
    """The distance from the nearer of the two temperatures to the one with the lowest ECE."""
    return float(min(abs(piece[kind][method] - piece["least"]) for method in _METHODS))


def titles(names: list[str]) -> str:
    """Networks in words."""
    return ", ".join(NetworkName.parse(name).label for name in names)


def _piece(name: str, scale: Scale) -> dict[str, Any]:
    loaded = network(name, scale)
    kinds = validations(loaded)
    chosen = {
        kind: {method: row[f"temperature_{method}"] for method in _METHODS}
        for kind, row in scores_by_kind(kinds, loaded.test).items()
    }
    lowest, *_, highest = sorted(T for temperatures in chosen.values() for T in temperatures.values())
    curves = EceCurves.from_labelled(loaded.test, np.arange(0.75 * lowest, 1.3 * highest, _STEP))
    generator = np.random.default_rng(scale.seed)
    n = len(loaded.test.labels)
    drawn = [curves.least(np.bincount(generator.integers(n, size=n), minlength=n)) for _ in range(8 if scale.quick else 20)]
    fits = temperature_errors(kinds)[f"clean {SANDWICH}"]
    return {
        **chosen,
        "least": curves.least(np.ones(n)),
        # Test images decide where the minimum is, validation images where the temperature is.
        "error": hypot(float(np.std(drawn, ddof=1)), fits["temperature_ec"]),
    }


class EceCurves:
    """The paper's ECE at several temperatures, for any weights of the samples."""

    def __init__(self, temperatures: HostArray, orders: HostArray, gaps: HostArray) -> None:
        self._temperatures, self._orders, self._gaps = temperatures, orders, gaps

    @classmethod
    def from_labelled(cls, test: Labelled, temperatures: HostArray) -> "EceCurves":
        """Sort the samples by confidence at each temperature, once for all weights."""
        logits = np.asarray(test.logits, dtype=np.float64)
        right = logits.argmax(axis=1) == test.labels
        confidences = np.array([softmax(logits / T, axis=1).max(axis=1) for T in temperatures])
        return cls(temperatures, confidences.argsort(axis=1), confidences - right)

    def ece(self, weights: HostArray) -> HostArray:
        """The ECE at each temperature, with 15 bins of equal mass."""
        ratios = []
        for order, gap in zip(self._orders, self._gaps, strict=True):
            sorted_weights = weights[order]
            mass = sorted_weights.cumsum()
            # A sample belongs to the bin that its middle lies in.
            bins = ((mass - sorted_weights / 2) * (_BINS / mass[-1])).astype(int)
            ratios.append(np.abs(np.bincount(bins, sorted_weights * gap[order])).sum() / mass[-1])
        return np.array(ratios)

    def least(self, weights: HostArray) -> float:
        """The temperature with the least ECE."""
        return float(self._temperatures[self.ece(weights).argmin()])
