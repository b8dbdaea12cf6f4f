"""Rows as functions of β: what one reading at β₀ says about all β near it.

For each row, R(β) = Σ exp(βd) over the classes other than the top one is R(β₀)·exp(κ₁δ + κ₂δ²/2 + ...) with δ = β - β₀ and the
cumulants κ of d. Six of them give temperatures ten percent away to eight digits, so both temperatures are found without
reading the logits again. An `Expansion` holds such rows; 56 bytes stand for a row of logits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import comb, factorial
from typing import Any

import numpy as np

from nishimori._kernels.block import N_SUMS, RowsNearBeta
from nishimori._kernels.kernel import ExpandedSumsFunction
from nishimori._kernels.row_sums import kernel_of, near_beta, row_sums, takes_unchecked
from nishimori._rows.batch import Batch
from nishimori._sums.moments import GapSums, Measure, pair_sums
from nishimori._sums.passes import KernelPass
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray

ORDER = 6

# Rows per part: one number for each stays in the cache, and BLAS starts no threads for fewer than 8,738.
_JOINED = 2**13


@dataclass(frozen=True)
class ExpandedRows:
    """Some rows near ``beta``: their power sums at other β, and what does not depend on β.

    ``sums`` computes the sums of a pair of observables, if the kernel that expanded the rows can do that too.
    """

    beta: float
    rows: RowsNearBeta
    weights: Array
    sums: ExpandedSumsFunction | None = None

    @property
    def n_rows(self) -> int:
        return int(self.weights.shape[0])

    @property
    def xp(self) -> Any:
        """The array API functions of these rows' library."""
        return arrays.namespace(self.weights)

    @cached_property
    def weight(self) -> float:
        """The sum of the weights."""
        return float(self.xp.sum(self.weights))

    def powers(self, beta: float) -> Array:
        """R(β) and its derivatives up to the fourth, from the cumulants."""
        return self._powers(beta - self.beta)

    def pair_sums(self, beta_ec: float, beta_ts: float) -> HostArray:
        """The sums of a pair of observables, each at its own β."""
        if self.sums is not None:
            return self._sums(beta_ec, beta_ts)[:N_SUMS]
        ec = self.powers(beta_ec)
        ts = ec if beta_ts == beta_ec else self.powers(beta_ts)
        return pair_sums(ec, ts, self.rows.right, self.rows.label_drops, self.weights)

    def _sums(self, beta_ec: float, beta_ts: float) -> HostArray:
        assert self.sums is not None
        return self.sums(self.rows, self.weights, beta_ec - self.beta, beta_ts - self.beta)

    def _powers(self, step: float) -> Array:
        # The logarithm of R and its derivatives are polynomials in the step: one product of small matrices.
        cumulants = self.rows.cumulants
        n = cumulants.shape[0]
        factors = np.array([[_term(step, j - i) if j >= i else 0.0 for j in range(1, n + 1)] for i in range(5)])
        table = arrays.on_device_of(factors, cumulants) @ cumulants
        log, first, second, third, fourth = (table[i, ...] for i in range(5))
        rest = self.rows.rest * self.xp.exp(log)
        square = first * first
        terms = (
            first,
            second + square,
            third + first * (3 * second + square),
            fourth + 4 * first * third + 3 * second**2 + square * (6 * second + square),
        )
        return self.xp.stack([rest, *(rest * term for term in terms)])

    def last_orders(self, beta_ec: float, beta_ts: float) -> HostArray:
        """By how much the last cumulant changes confidences, and mean drops, in all: sums of absolute values."""
        if self.sums is not None:
            return self._sums(beta_ec, beta_ts)[-2:]
        n, weight, last = ORDER, self.weights, self.xp.abs(self.rows.cumulants[-1, ...])
        found = []
        for beta, in_confidence in ((beta_ec, True), (beta_ts, False)):
            in_log, in_slope = (abs(_term(beta - self.beta, power)) for power in (n, n - 1))
            powers = self.powers(beta)
            top = 1 / (1 + powers[0, ...])
            doubt = powers[0, ...] * top
            in_energy = doubt * in_slope + self.xp.abs(powers[1, ...]) * top**2 * in_log
            change = top * doubt * in_log if in_confidence else in_energy
            found.append(float(self.xp.sum(weight * last * change)))
        return np.array(found)


def _concatenate(parts: Sequence[ExpandedRows]) -> ExpandedRows:
    """The rows of several parts."""
    if len(parts) == 1:
        return parts[0]
    xp = parts[0].xp
    columns = [xp.concat(each, axis=-1) for each in zip(*(part.rows[:4] for part in parts), strict=True)]
    return replace(parts[0], rows=RowsNearBeta(*columns), weights=xp.concat([part.weights for part in parts]))


def _term(step: float, power: int) -> float:
    return step**power / factorial(power)


@dataclass(frozen=True)
class Expansion:
    """The rows of a data set near one β. Two expansions of different rows add."""

    parts: tuple[ExpandedRows, ...]

    def __add__(self, other: "Expansion") -> "Expansion":
        return Expansion(self.parts + other.parts)

    def measure(self, measure: Measure) -> GapSums:
        """What a measurement of confidence, energy or both at one β each would give."""
        first, *others = (measure.of_pair(part.pair_sums(*measure.pair)) for part in self.parts)
        return sum(others, first)

    def join_parts(self) -> "Expansion":
        """The expansion with its rows in few parts: those of many classes come a few hundred at a time."""
        parts: list[ExpandedRows] = []
        group: list[ExpandedRows] = []
        for part in self.parts:
            if group and sum(each.n_rows for each in group) + part.n_rows > _JOINED:
                parts.append(_concatenate(group))
                group = []
            group.append(part)
        return Expansion((*parts, *([_concatenate(group)] if group else [])))

    def last_orders(self, beta_ec: float, beta_ts: float) -> HostArray:
        """How much the last cumulant can change the mean gaps of confidence and of energy."""
        changes = sum((part.last_orders(beta_ec, beta_ts) for part in self.parts), np.zeros(2))
        return changes / sum(part.weight for part in self.parts)


@dataclass(frozen=True)
class Expand(KernelPass[Expansion]):
    """The pass that expands rows around ``beta``. What it gives adds by keeping both parts, so it grows with the rows."""

    beta: float
    exact: bool = True

    def reads_unchecked(self, batch: Batch) -> bool:
        """Whether the kernel expands rows by itself."""
        return kernel_of(batch).expand is not None and takes_unchecked(batch)

    def with_found(self, batch: Batch) -> tuple[Expansion, RowsNearBeta]:
        """The expanded rows of a batch, and the same as the kernel returned them."""
        found = near_beta(batch, self.beta, exact=self.exact)
        if found is not None:
            return Expansion((ExpandedRows(self.beta, found, batch.weights, kernel_of(batch).expanded_sums),)), found
        known, xp = row_sums(batch, (self.beta,), ORDER, exact=self.exact), batch.xp
        sums = known.at(self.beta)
        rest = sums[0, ...]
        means = sums[1:, ...] / xp.where(rest > 0, rest, xp.ones_like(rest))
        found = RowsNearBeta(rest, _cumulants(means, xp), known.label_drops, known.right)
        return Expansion((ExpandedRows(self.beta, found, batch.weights),)), found


def _cumulants(means: Array, xp: Any) -> Array:
    """κ₁, κ₂, ... from ⟨d⟩, ⟨d²⟩, ...: κ_n = ⟨dⁿ⟩ - Σ_j C(n-1, j-1) κ_j ⟨dⁿ⁻ʲ⟩."""
    found: list[Array] = []
    for n in range(means.shape[0]):
        kappa = means[n, ...]
        for j in range(n):
            kappa = kappa - comb(n, j) * found[j] * means[n - 1 - j, ...]
        found.append(kappa)
    return xp.stack(found)
