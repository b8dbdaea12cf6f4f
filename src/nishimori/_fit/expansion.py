"""Rows as functions of β: what one reading at β₀ says about all β near it.

For each row, R(β) = Σ exp(βd) over the classes other than the top one is R(β₀)·exp(κ₁δ + κ₂δ²/2 + ...) with δ = β - β₀ and the
cumulants κ of d. Six of them give temperatures ten percent away to eight digits, so both temperatures are found without
reading the logits again. An `Expansion` holds such rows; 56 bytes stand for a row of logits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import comb, factorial
from typing import Any

import numpy as np

from nishimori._kernels.block import RowsNearBeta
from nishimori._kernels.kernel import ExpandedSumsFunction, Kernel
from nishimori._rows.batch import N_SUMS, Batch
from nishimori._rows.rows import Rows
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray

ORDER = 6

# Rows per part: one number for each stays in the cache, and BLAS starts no threads for fewer than 8,738.
_JOINED = 2**13


@dataclass(frozen=True)
class ExpandedRows:
    """Some rows near ``beta``: their power sums at other β, and what does not depend on β. It stands in for a `Batch`.

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
    def label_drops(self) -> Array:
        return self.rows.label_drops

    @property
    def right(self) -> Array:
        return self.rows.right

    @property
    def xp(self) -> Any:
        """The array API functions of these rows' library."""
        return arrays.namespace(self.weights)

    @cached_property
    def weight(self) -> float:
        """The sum of the weights."""
        return float(self.xp.sum(self.weights))

    total = Batch.total
    totals = Batch.totals

    def power_sums(self, betas: Sequence[float], order: int, top_n: int = 1, *, exact: bool = True) -> Array:  # noqa: ARG002
        """R(β) and its derivatives up to the fourth, from the cumulants."""
        assert top_n == 1, "only the rest of all classes is known"
        assert order <= 4
        return self.xp.stack([self._powers(beta - self.beta) for beta in betas])

    def block_sums(self, beta_ec: float, beta_ts: float, *, exact: bool) -> HostArray | None:  # noqa: ARG002
        """The sums of a pair of observables, or None if they have to be made from `power_sums`."""
        return None if self.sums is None else self._sums(beta_ec, beta_ts)[:N_SUMS]

    def _sums(self, beta_ec: float, beta_ts: float) -> HostArray:
        assert self.sums is not None
        return self.sums(self.rows, self.weights, beta_ec - self.beta, beta_ts - self.beta)

    def _powers(self, step: float) -> Array:
        # The logarithm of R and its derivatives are polynomials in the step: one product of small matrices.
        cumulants = self.rows.cumulants
        n = cumulants.shape[0]
        factors = np.array([[_term(step, j - i) if j >= i else 0.0 for j in range(1, n + 1)] for i in range(5)])
        table = arrays.beside(factors, cumulants) @ cumulants
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
            powers = self.power_sums((beta,), 1)[0, ...]
            top = 1 / (1 + powers[0, ...])
            doubt = powers[0, ...] * top
            in_energy = doubt * in_slope + self.xp.abs(powers[1, ...]) * top**2 * in_log
            change = top * doubt * in_log if in_confidence else in_energy
            found.append(float(self.xp.sum(weight * last * change)))
        return np.array(found)


def _concatenated(parts: Sequence[ExpandedRows]) -> ExpandedRows:
    """The rows of several parts."""
    if len(parts) == 1:
        return parts[0]
    xp = parts[0].xp
    columns = [xp.concat(each, axis=-1) for each in zip(*(part.rows[:4] for part in parts), strict=True)]
    return replace(parts[0], rows=RowsNearBeta(*columns), weights=xp.concat([part.weights for part in parts]))


def _term(step: float, power: int) -> float:
    return step**power / factorial(power)


@dataclass(frozen=True)
class Expansion(Rows):
    """The rows of a data set near one β. Two expansions of different rows add."""

    parts: tuple[ExpandedRows, ...]

    n_classes = 0  # there are no classes to look at any more

    def __add__(self, other: "Expansion") -> "Expansion":
        return Expansion(self.parts + other.parts)

    @property
    def n_rows(self) -> int:
        return sum(part.n_rows for part in self.parts)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.parts)

    def joined(self) -> "Expansion":
        """The same rows in few parts: those of many classes come a few hundred at a time."""
        parts: list[ExpandedRows] = []
        group: list[ExpandedRows] = []
        for part in self.parts:
            if group and sum(each.n_rows for each in group) + part.n_rows > _JOINED:
                parts.append(_concatenated(group))
                group = []
            group.append(part)
        return Expansion((*parts, *([_concatenated(group)] if group else [])))

    def last_orders(self, beta_ec: float, beta_ts: float) -> HostArray:
        """How much the last cumulant can change the mean gaps of confidence and of energy."""
        changes = sum((part.last_orders(beta_ec, beta_ts) for part in self.parts), np.zeros(2))
        return changes / sum(part.weight for part in self.parts)


@dataclass(frozen=True)
class Expand:
    """The pass that expands rows around ``beta``. What it gives adds by keeping both parts, so it grows with the rows."""

    beta: float
    exact: bool = True

    def is_fused_by(self, kernel: Kernel) -> bool:
        """Whether the kernel can read all rows at once."""
        return kernel.expand is not None

    def __call__(self, batch: Batch) -> Expansion:
        xp = batch.xp
        rows = batch.expanded(self.beta, exact=self.exact)
        if rows is not None:
            return Expansion((ExpandedRows(self.beta, rows, batch.weights, batch.chosen_kernel.expanded_sums),))
        sums = batch.power_sums((self.beta,), ORDER, exact=self.exact)[0, ...]
        rest = sums[0, ...]
        means = sums[1:, ...] / xp.where(rest > 0, rest, xp.ones_like(rest))
        rows = RowsNearBeta(rest, _cumulants(means, xp), batch.label_drops, batch.right)
        return Expansion((ExpandedRows(self.beta, rows, batch.weights),))


def _cumulants(means: Array, xp: Any) -> Array:
    """κ₁, κ₂, ... from ⟨d⟩, ⟨d²⟩, ...: κ_n = ⟨dⁿ⟩ - Σ_j C(n-1, j-1) κ_j ⟨dⁿ⁻ʲ⟩."""
    found: list[Array] = []
    for n in range(means.shape[0]):
        kappa = means[n, ...]
        for j in range(n):
            kappa = kappa - comb(n, j) * found[j] * means[n - 1 - j, ...]
        found.append(kappa)
    return xp.stack(found)
