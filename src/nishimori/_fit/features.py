"""Conditions of a map that somebody else wrote: from the derivative of the map by each parameter, and what is matched.

Both are tables (n, K, m), with one number per row, class and parameter. They are asked for a few rows at a time, so that no
large table is ever held, and checked each time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nishimori._fit.conditions import ConditionSums, on_host
from nishimori._rows.batch import Batch
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori._support.numeric import numeric
from nishimori.errors import InputError
from nishimori.maps.map import Map

# How many numbers a table may have: 32 MiB of float64.
_LARGEST_TABLE = 2**22

# So many rows of a batch tell whether the derivatives are those of the map.
_TELLING = 8

Tables = Callable[[HostArray], Any]


@dataclass(frozen=True)
class Family:
    """A family of maps as its author describes it.

    Attributes
    ----------
    name : str
        What its class is called, for messages.
    map_for : function
        The map with the parameters in a flat array.
    features : function
        The derivative of the mapped logits by each parameter, (n, K, m), from logits.
    observables : function
        What is matched, in the same shape; None if it is the features.
    """

    name: str
    map_for: Callable[[HostArray], Map]
    features: Tables
    observables: Tables | None

    def tables(self, logits: HostArray, n_parameters: int) -> tuple[HostArray, HostArray]:
        """Features and observables of some rows."""
        shape = (*logits.shape, n_parameters)
        features = self._table("features", self.features, logits, shape)
        if self.observables is None:
            return features, features
        return features, self._table("observables", self.observables, logits, shape)

    def _table(self, what: str, function: Tables, logits: HostArray, shape: tuple[int, ...]) -> HostArray:
        """What a function of the author returns, checked."""
        name = f"{self.name}.{what}"
        try:
            given = function(logits)
        except Exception as error:
            raise InputError(f"`{name}` raised {type(error).__name__}: {str(error).rstrip('.')}.") from error
        table = arrays.on_host(numeric(given, name)).astype(np.float64)
        if table.shape != shape:
            raise InputError(
                name, f"return an array of shape {shape}, one number per row, class and parameter", got=table.shape
            )
        if not np.isfinite(table).all():
            raise InputError(name, "be finite", got="NaN or infinity")
        return table


@dataclass(frozen=True)
class MatchFeatures:
    """The pass that sums the conditions at parameters ``x``."""

    family: Family
    x: HostArray

    def __call__(self, batch: Batch) -> ConditionSums:
        map_ = self.family.map_for(self.x)
        parts = [self._sums(batch, map_, rows) for rows in _pieces(batch, len(self.x))]
        return sum(parts[1:], start=parts[0])

    def _sums(self, batch: Batch, map_: Map, rows: slice) -> ConditionSums:
        p, features, observables, weights = self._tables(batch, map_, rows)
        m = len(self.x)
        heavy = p * weights[:, None]
        centred_f = features - _mean(p, features)[:, None, :]
        expected = _mean(p, observables)
        centred_o = centred_f if observables is features else observables - expected[:, None, :]
        observed = _at(observables, batch, rows)
        weighted = (heavy[:, :, None] * centred_o).reshape(-1, m)
        sizes = weights @ (_mean(p, np.abs(observables)) + np.abs(observed))
        return ConditionSums(
            float(weights.sum()),
            weights @ (expected - observed),
            sizes,
            weighted.T @ centred_f.reshape(-1, m),
            np.einsum("nk,nkm->m", heavy, centred_f**2),
        )

    def gaps_of(self, batch: Batch) -> HostArray:
        """The gaps of each row, (n, m)."""
        map_ = self.family.map_for(self.x)
        found = []
        for rows in _pieces(batch, len(self.x)):
            p, _, observables, _ = self._tables(batch, map_, rows)
            found.append(_mean(p, observables) - _at(observables, batch, rows))
        return np.concatenate(found)

    def _tables(self, batch: Batch, map_: Map, rows: slice) -> tuple[HostArray, HostArray, HostArray, HostArray]:
        logits = on_host(batch)[rows]
        features, observables = self.family.tables(logits, len(self.x))
        return map_.probabilities(logits), features, observables, arrays.on_host(batch.weights)[rows]


@dataclass(frozen=True)
class CheckFeatures:
    """The pass that refuses features that are not the derivative of the map; nothing is summed."""

    family: Family
    x: HostArray

    def __call__(self, batch: Batch) -> "Checked":
        logits = on_host(batch)[:_TELLING]
        features, _ = self.family.tables(logits, len(self.x))
        # A step to where no parameter is what it was; parameters that must be positive stay so.
        step = 0.01 * (np.abs(self.x) + 1e-3) * (1 + np.random.default_rng(0).random(len(self.x)))
        before, after = (self.family.map_for(x).apply(logits) for x in (self.x, self.x + step))
        change, told = _centre_rows(after - before), _centre_rows(features @ step)
        size = np.abs(change).max() + np.abs(told).max()
        if not np.abs(change - told).max() <= 1e-6 * size + 1e-12 * np.abs(before).max():
            raise InputError(
                f"{self.family.name}.features",
                (
                    "be the derivative of what the map of `map_for` returns by each parameter, and not depend on the "
                    f"parameters: a step changes the mapped logits by up to {np.abs(change).max():.3g}, but by up to "
                    f"{np.abs(told).max():.3g} according to `features`, and the two differ by up to "
                    f"{np.abs(change - told).max():.3g}"
                ),
            )
        return Checked()


@dataclass(frozen=True)
class Checked:
    """That some rows were found in order; adds."""

    def __add__(self, other: "Checked") -> "Checked":
        return self


def _pieces(batch: Batch, n_parameters: int) -> Iterator[slice]:
    step = max(1, _LARGEST_TABLE // (batch.n_classes * n_parameters))
    return (slice(start, start + step) for start in range(0, batch.n_rows, step))


def _mean(p: HostArray, table: HostArray) -> HostArray:
    """The mean of a table (n, K, m) under probabilities (n, K)."""
    mean: HostArray = np.einsum("nk,nkm->nm", p, table)
    return mean


def _at(table: HostArray, batch: Batch, rows: slice) -> HostArray:
    """The entries of the true classes of some rows of a batch, (n, m)."""
    labels = arrays.on_host(batch.labels)[rows]
    found: HostArray = table[np.arange(len(table)), labels]
    return found


def _centre_rows(logits: HostArray) -> HostArray:
    """The logits minus the mean of their row, which changes no probability."""
    centred: HostArray = logits - logits.mean(axis=1, keepdims=True)
    return centred
