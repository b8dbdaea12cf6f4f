"""The named parameters of a calibrator: as one flat array, with their standard errors in a file, and why they have none."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from nishimori._support.arrays import HostArray
from nishimori._support.numbers import numeric
from nishimori.errors import InputError

# This many parameters can have standard errors: their covariance is a table of that many rows and columns.
_MOST_WITH_ERRORS = 1000

NOT_IN_FILE = "The file from which the calibrator was loaded holds no standard errors. Fit the calibrator again."
"""Why a calibrator that was loaded may have no standard errors."""


@dataclass(frozen=True)
class Layout:
    """The names and shapes of parameters that a flat array holds one after the other."""

    shapes: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def from_values(cls, values: Any, owner: str) -> tuple["Layout", HostArray]:
        """The layout of what `start` returned, and its numbers."""
        if not isinstance(values, Mapping) or not values or not all(isinstance(name, str) and name for name in values):
            raise InputError(f"{owner}.start", "return a dictionary from names to numbers", got=repr(values))
        arrays = {name: np.asarray(numeric(np.atleast_1d(value), f"{owner}.start")) for name, value in values.items()}
        flat = np.concatenate([array.astype(float).ravel() for array in arrays.values()])
        if not flat.size or not np.isfinite(flat).all():
            raise InputError(f"{owner}.start", "return finite numbers", got=repr(values))
        return cls(tuple((name, np.shape(value)) for name, value in values.items())), flat

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return sum(prod(shape) for _, shape in self.shapes)

    def by_name(self, flat: HostArray) -> dict[str, Any]:
        """The numbers by name, each a float or an array of its shape."""
        values: dict[str, Any] = {}
        place = 0
        for name, shape in self.shapes:
            part = flat[place : place + prod(shape)]
            values[name] = part.reshape(shape).copy() if shape else float(part[0])
            place += prod(shape)
        return values

    def read(self, values: Mapping[str, float], ending: str = "") -> dict[str, Any] | None:
        """The parameters that `flat_entries` made numbers of, with the same ending; None if some are missing."""
        keys = flat_entries(self.by_name(np.zeros(self.size)), ending)
        return self.by_name(np.array([values[key] for key in keys], dtype=float)) if keys.keys() <= values.keys() else None


def read_errors(
    estimates: Mapping[str, float], layout: Layout, reason: str | None = None
) -> tuple[dict[str, Any] | None, str | None]:
    """The standard errors among the estimates of a fit or of a file, or else why there are none.

    ``reason`` is why the method computes none with its parameters; None if it does.
    """
    errors = layout.read(estimates, "_se")
    if errors is not None:
        return errors, None
    return None, reason or too_many(layout.size) or NOT_IN_FILE


def too_many(number: int) -> str:
    """Why this many parameters have no standard errors; empty if they can have them."""
    if number <= _MOST_WITH_ERRORS:
        return ""
    return f"There are {number:,} parameters, and standard errors are computed for at most {_MOST_WITH_ERRORS:,}."


def flat_entries(parameters: Mapping[str, Any], ending: str = "") -> dict[str, float]:
    """Parameters as one number per entry, numbered where there are several: ``scale_se``, ``biases_se.3``."""
    return {
        f"{name}{ending}{f'.{i}' if np.ndim(value) else ''}": float(number)
        for name, value in parameters.items()
        for i, number in enumerate(np.ravel(value))
    }
