"""How uncertain a fitted mixture is: the sandwich of the conditions of its temperature and of its weights.

The temperature is that of temperature scaling, and the weights follow with the temperature held fixed. So there are two sets of
conditions in a row. Those of the weights depend on the temperature too, and its uncertainty becomes theirs.
"""

from dataclasses import dataclass

import numpy as np

from nishimori._fit.conditions import gap_products, sandwich
from nishimori._fit.mixture_weights import MixtureRows
from nishimori._rows.batch import Batch
from nishimori._rows.source import Source
from nishimori._support import arrays
from nishimori._support.arrays import HostArray

# With a larger condition number of the derivatives, rounding decides about the errors.
_LARGEST_CONDITION = 1e12


@dataclass(frozen=True)
class Slopes:
    """Σω of the derivative of each condition by each unknown; adds."""

    jacobian: HostArray

    def __add__(self, other: "Slopes") -> "Slopes":
        return Slopes(self.jacobian + other.jacobian)


@dataclass(frozen=True, eq=False)
class MixtureConditions:
    """The conditions of each row, and how they move with the unknowns β = 1/T, w₁ and w₂; w₃ is 1 minus both.

    With energy gap e = ⟨z⟩ − z at the label and t_a = (q_a − q₃)/s they are e, −t₁ and −t₂.
    """

    temperature: float
    weights: HostArray

    def gaps_of(self, batch: Batch) -> HostArray:
        """The conditions of each row, (n, 3)."""
        rows = MixtureRows(batch, self.temperature)
        energies, _ = rows.energies()
        return np.column_stack([energies, -self._tilts(rows)[0]])

    def __call__(self, batch: Batch) -> Slopes:
        rows = MixtureRows(batch, self.temperature)
        heavy = arrays.on_host(batch.weights)
        energies, variances = rows.energies()
        tilts, first = self._tilts(rows)
        moved = -energies * first  # the derivative of q₁ by β, divided by s
        by_beta = tilts * (self.weights[0] * moved)[:, None]
        by_beta[:, 0] -= moved
        jacobian = np.zeros((3, 3))
        jacobian[0, 0] = heavy @ variances
        jacobian[1:, 0] = heavy @ by_beta
        jacobian[1:, 1:] = tilts.T @ (tilts * heavy[:, None])
        return Slopes(jacobian)

    def _tilts(self, rows: MixtureRows) -> tuple[HostArray, HostArray]:
        """t_a for both a, (n, 2), and q₁/s, (n,)."""
        mixed = rows.relative @ self.weights
        return (rows.relative[:, :2] - rows.relative[:, 2:]) / mixed[:, None], rows.relative[:, 0] / mixed


def standard_errors(data: Source, temperature: float, weights: HostArray, *, counts: bool) -> HostArray | None:
    """Those of T and of the three weights; None if the conditions do not determine them. The data are read twice."""
    conditions = MixtureConditions(temperature, weights)
    products = gap_products(data, conditions.gaps_of, counts=counts)
    jacobian = data.gather(conditions).jacobian
    scale = 1 / np.sqrt(np.diag(jacobian))
    if not np.isfinite(scale).all() or np.linalg.cond(jacobian * scale[:, None] * scale) > _LARGEST_CONDITION:
        return None
    covariance = sandwich(jacobian, products)
    # T = 1/β, and w₃ = 1 − w₁ − w₂.
    change = np.array([[temperature**2, 0, 0], [0, 1, 0], [0, 0, 1], [0, -1, -1]])
    errors: HostArray = np.sqrt(np.maximum(np.diag(change @ covariance @ change.T), 0))
    return errors
