"""Fit `SeveralParameters`, the maps that users write, from the derivative by each parameter and the matched observables.

The map turns logits into u(θ), with p(k) ∝ exp(u_k). Each condition says that an observable O has the same mean under p as at
the labels. Its gap is the difference of the two.

Both are tables (n, K, m), with one number per row, class and parameter. They are asked for a few rows at a time, so that no
large table is ever held, and checked each time. Derivatives that their author does not give are taken by differences.

Where the mapped logits are linear in the parameters, the derivative of the gap of O_a by θ_b is Cov(O_a, ∂u/∂θ_b). Where what
is matched depends on the parameters, as ∂u/∂θ does for least cross-entropy with a map that is not linear in them, the mean of
∂O_a/∂θ_b under the model minus its value at the labels is added. That part is measured by differences.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from operator import or_
from typing import Any

import numpy as np

from nishimori._fit.newton import NOISE, Equations
from nishimori._rows.batch import Batch
from nishimori._rows.rows import Sum, combined_by
from nishimori._sums.observables import read_only_logits, table_from
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError
from nishimori.maps.map import Map, apply_checked

# How many numbers a table may have: 32 MiB of float64.
_LARGEST_TABLE = 2**22

# This many rows of a batch tell whether the derivatives are those of the map.
_TELLING = 8

# Differences reach so far, in units in which a step of one changes mapped logits by about one: an error of 1e-12 of the fourth
# order meets one of 1e-13 of rounding.
_REACH = 1e-3

# As far as that before the units are known, relative to the parameter itself.
_FIRST_REACH, _SMALLEST = 1e-5, 1e-2

# Tables that change by a smaller part of themselves over the step of the check do not depend on the parameters.
_CHANGES = 1e-6

Tables = Callable[[HostArray, HostArray], Any]
"""A table from logits and parameters in a flat array."""


@dataclass(frozen=True)
class Family:
    """A family of maps as its author describes it.

    Attributes
    ----------
    name : str
        What its class is called, for messages.
    map_for : function
        The map with the parameters in a flat array.
    features : function or None
        The derivative of the mapped logits by each parameter, (n, K, m), from logits and parameters; None to take differences.
    observables : function or None
        What is matched, in the same shape; None if it is the features, for least cross-entropy.
    steps : array of shape (m,), or None
        How far differences reach; None if that is not known yet.
    is_curved : bool
        Whether what is matched depends on the parameters.
    """

    name: str
    map_for: Callable[[HostArray], Map]
    features: Tables | None
    observables: Tables | None
    steps: HostArray | None = None
    is_curved: bool = False

    @property
    def is_loss(self) -> bool:
        """Whether the conditions minimise the cross-entropy."""
        return self.observables is None

    def tables(self, logits: HostArray, x: HostArray) -> tuple[HostArray, HostArray]:
        """Features and observables of some rows."""
        features = self._features(logits, x)
        return features, features if self.observables is None else self._table("observables", self.observables, logits, x)

    def slopes(self, logits: HostArray, x: HostArray) -> Iterator[HostArray]:
        """The derivative of what is matched by each parameter, one table after the other, by differences."""
        steps = np.diag(self._reach(x))
        for i, step in enumerate(steps):
            if self.features is None and self.observables is None:  # second derivatives of the map, with fewer calls of it
                corners = [
                    sum(
                        sign * other * self.mapped(logits, x + sign * first + other * step)
                        for sign in (1, -1)
                        for other in (1, -1)
                    )
                    for first in steps
                ]
                yield np.stack([corner / (4 * steps[a, a] * step[i]) for a, corner in enumerate(corners)], axis=2)
            else:
                after, before = (self.tables(logits, x + sign * step)[1] for sign in (1, -1))
                yield (after - before) / (2 * step[i])

    def mapped(self, logits: HostArray, x: HostArray) -> HostArray:
        """The mapped logits of some rows, minus the mean of each row, which changes no probability."""
        return _centre_rows(arrays.on_host(apply_checked(self.map_for(x), logits)))

    def _features(self, logits: HostArray, x: HostArray) -> HostArray:
        if self.features is not None:
            return self._table("features", self.features, logits, x)
        table = np.empty((*logits.shape, len(x)))
        for i, step in enumerate(self._reach(x)):
            at = {far: self.mapped(logits, x + far * step * np.eye(len(x))[i]) for far in (-2, -1, 1, 2)}
            table[:, :, i] = (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * step)
        if not np.isfinite(table).all():
            raise InputError(
                f"The map of {self.name}.map_for",
                "return finite logits near its parameters, because its derivative is taken by differences",
                remedy="Write `features`.",
            )
        return table

    def _reach(self, x: HostArray) -> HostArray:
        """The step of finite differences in each parameter."""
        return _FIRST_REACH * np.maximum(np.abs(x), _SMALLEST) if self.steps is None else self.steps

    def _table(self, what: str, function: Tables, logits: HostArray, x: HostArray) -> HostArray:
        """The checked result of an author's function."""
        name = f"{self.name}.{what}"
        table = table_from(name, function, logits, x, shape=(*logits.shape, len(x)))
        if not np.isfinite(table).all():
            raise InputError(name, "be finite", got="NaN or infinity")
        return table


@dataclass(frozen=True)
class FamilySums(Sum):
    """Weighted sums over rows at one point θ; ``+`` adds other rows at the same point.

    Attributes
    ----------
    weight : float
        Σw.
    gaps : array of shape (m,)
        Σw(⟨O⟩ − O at the label).
    sizes : array of shape (m,)
        What the rounding of the gaps is relative to.
    jacobian : array of shape (m, m)
        Σw Cov(O_a, ∂u/∂θ_b).
    information : array of shape (m,)
        Σw Var(∂u/∂θ_b), which is positive: its inverse root is the unit of a parameter.
    curvature : array of shape (m, m)
        Σw(⟨∂O_a/∂θ_b⟩ − ∂O_a/∂θ_b at the label); zero where O does not depend on the parameters.
    loss : float
        The cross-entropy, Σw·(−log p of the label).
    """

    weight: float
    gaps: HostArray
    sizes: HostArray
    jacobian: HostArray
    information: HostArray
    curvature: HostArray
    loss: float

    def equations(self, *, is_loss: bool) -> tuple[Equations, bool]:
        """The mean gaps with their derivatives, and whether a solution here would be a minimum, if they belong to a loss.

        Away from a minimum the derivatives of a loss may not be positive. Steps are then taken with the covariances, which are.
        """
        units = _units(self.information, self.weight)
        jacobian = self.jacobian / self.weight
        equations = Equations(self.gaps / self.weight, jacobian, units, NOISE * self.sizes / self.weight)
        full = jacobian + self.curvature / self.weight
        if is_loss:
            full, equations = (full + full.T) / 2, replace(equations, loss=self.loss / self.weight)
            if not (np.isfinite(full).all() and np.linalg.eigvalsh(full * np.outer(units, units))[0] > 0):
                return equations, False
        return replace(equations, jacobian=full), True


def match_features(family: Family, x: HostArray, batch: Batch) -> FamilySums:
    """The pass that sums the conditions at parameters ``x``."""
    parts = [_sum_piece(family, x, batch, rows) for rows in _pieces(batch, len(x))]
    return sum(parts[1:], start=parts[0])


def _sum_piece(family: Family, x: HostArray, batch: Batch, rows: slice) -> FamilySums:
    logits, weights, m = read_only_logits(batch)[rows], arrays.on_host(batch.weights)[rows], len(x)
    try:
        logs = family.map_for(x).log_probabilities(logits)
    except ValueError:  # parameters that the map refuses
        logs = np.full(logits.shape, np.nan)
    if np.isnan(logs).any():  # the conditions have no meaning here: a shorter step is tried
        vector, matrix = np.full(m, np.nan), np.full((m, m), np.nan)
        return FamilySums(1.0, vector, vector, matrix, vector, matrix, np.nan)
    p = np.exp(logs)
    features, observables = family.tables(logits, x)
    heavy = p * weights[:, None]
    centred_f = features - _mean(p, features)[:, None, :]
    expected = _mean(p, observables)
    centred_o = centred_f if observables is features else observables - expected[:, None, :]
    observed = _at(observables, batch, rows)
    weighted = (heavy[:, :, None] * centred_o).reshape(-1, m)
    curvature = np.zeros((m, m))
    if family.is_curved:
        for i, slope in enumerate(family.slopes(logits, x)):
            curvature[:, i] = weights @ (_mean(p, slope) - _at(slope, batch, rows))
    return FamilySums(
        weight=float(weights.sum()),
        gaps=weights @ (expected - observed),
        sizes=weights @ (_mean(p, np.abs(observables)) + np.abs(observed)),
        jacobian=weighted.T @ centred_f.reshape(-1, m),
        information=np.einsum("nk,nkm->m", heavy, centred_f**2),
        curvature=curvature,
        loss=-float(weights @ _at(logs[:, :, None], batch, rows)[:, 0]),
    )


def row_gaps(family: Family, x: HostArray, batch: Batch) -> HostArray:
    """The gaps of each row at parameters ``x``, (n, m)."""
    map_ = family.map_for(x)
    gaps = []
    for rows in _pieces(batch, len(x)):
        logits = read_only_logits(batch)[rows]
        _, observables = family.tables(logits, x)
        gaps.append(_mean(map_.probabilities(logits), observables) - _at(observables, batch, rows))
    return np.concatenate(gaps)


def check_features(family: Family, x: HostArray, batch: Batch) -> "Checked":
    """The pass that refuses features that are not the derivative of the map, and finds the units of the parameters."""
    logits = read_only_logits(batch)[:_TELLING]
    # A step to where no parameter is what it was; parameters that must be positive stay so.
    step = 1e-3 * (np.abs(x) + 1e-3) * (1 + np.random.default_rng(0).random(len(x)))
    features, observables = family.tables(logits, x)
    if family.features is not None:
        _refuse_other_derivatives(family, x, step, logits, features)
    p = family.map_for(x).probabilities(logits)
    spread = np.einsum("nk,nkm->m", p, (features - _mean(p, features)[:, None, :]) ** 2)
    later = family.tables(logits, x + step)[1]
    changes = float(np.abs(later - observables).max()) > _CHANGES * float(np.abs(observables).max())
    return Checked(len(logits), spread, changes)


def _refuse_other_derivatives(family: Family, x: HostArray, step: HostArray, logits: HostArray, features: HostArray) -> None:
    before, after = (family.mapped(logits, x + sign * step / 2) for sign in (-1, 1))
    change, expected = after - before, _centre_rows(features @ step)
    size = np.abs(change).max() + np.abs(expected).max()
    if not np.abs(change - expected).max() <= 1e-6 * size + 1e-12 * np.abs(before).max():
        raise InputError(
            f"{family.name}.features",
            (
                "be the derivative of what the map of `map_for` returns by each parameter: a step changes the mapped "
                f"logits by up to {np.abs(change).max():.3g}, but by up to {np.abs(expected).max():.3g} according to "
                f"`features`, and the two differ by up to {np.abs(change - expected).max():.3g}"
            ),
        )


@dataclass(frozen=True)
class Checked(Sum):
    """What some rows show about a family: their number, the sums of Var(∂u/∂θ), and whether observables depend on θ."""

    n_rows: int
    spread: HostArray
    changes: bool = field(metadata=combined_by(or_))

    def family(self, before: Family) -> Family:
        """The family, completed with these findings."""
        return replace(before, steps=_REACH * _units(self.spread, self.n_rows), is_curved=self.changes)


def _units(information: HostArray, weight: float) -> HostArray:
    """The size of a relevant change of each parameter, from Σw Var(∂u/∂θ) over rows of some weight."""
    with np.errstate(divide="ignore"):
        units = 1 / np.sqrt(information / weight)
    return np.where(np.isfinite(units), units, 1.0)  # a parameter without effect, which the search refuses


def _pieces(batch: Batch, n_parameters: int) -> Iterator[slice]:
    step = max(1, _LARGEST_TABLE // (batch.n_classes * n_parameters))
    return (slice(start, start + step) for start in range(0, batch.n_rows, step))


def _mean(p: HostArray, table: HostArray) -> HostArray:
    """The mean of a table (n, K, m) under probabilities (n, K)."""
    return np.einsum("nk,nkm->nm", p, table)


def _at(table: HostArray, batch: Batch, rows: slice) -> HostArray:
    """The entries of the true classes of some rows of a batch, (n, m)."""
    labels = arrays.on_host(batch.labels)[rows]
    return table[np.arange(len(table)), labels]


def _centre_rows(logits: HostArray) -> HostArray:
    """The logits minus the mean of their row, which changes no probability."""
    return logits - logits.mean(axis=1, keepdims=True)
