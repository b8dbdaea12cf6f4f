"""Standard errors of metrics that depend on all outcomes, by a jackknife or a bootstrap over rows.

The jackknife leaves out one of 100 random groups of rows at a time; it needs a smooth function of the data. The bootstrap draws
as many rows as there are, 200 times, and needs less. Rows of one cluster stay together. The groups and the draws depend on the
number of rows alone, so that two calibrations of the same rows share them: the spread of the differences is the standard error
of the difference.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from typing import Literal

import numpy as np

from nishimori._sums.predictions import Predictions
from nishimori._support.arrays import HostArray

Resampling = Literal["jackknife", "bootstrap"]

OfOutcomes = Callable[..., float]
"""A metric from the columns of kept rows: confidences, correctness and weights."""

_GROUPS = 100
_DRAWS = 200
_SEED = 0


@dataclass(frozen=True, eq=False)
class KeptRows:
    """Some numbers of each row, its weight and its cluster; ``+`` pools two sets of rows."""

    parts: tuple[tuple[HostArray, ...], ...]  # the weight is last
    codes: tuple[HostArray | None, ...]
    counts: bool
    _computed: dict[tuple[OfOutcomes, Resampling], HostArray] = field(default_factory=dict, repr=False)

    @classmethod
    def from_predictions(cls, predictions: Predictions, *numbers: HostArray) -> "KeptRows":
        """The numbers of one batch."""
        return cls(((*numbers, predictions.weights),), (predictions.clusters,), predictions.counts)

    def __add__(self, other: "KeptRows") -> "KeptRows":
        return KeptRows(self.parts + other.parts, self.codes + other.codes, self.counts)

    @cached_property
    def columns(self) -> tuple[HostArray, ...]:
        """The numbers of all rows, and their weights."""
        return tuple(np.concatenate(column) for column in zip(*self.parts, strict=True))

    @cached_property
    def clusters(self) -> HostArray | None:
        """The number of the cluster that each row belongs to; None if each row is independent."""
        codes = [code for code in self.codes if code is not None]
        return np.unique(np.concatenate(codes), return_inverse=True)[1] if codes else None

    @cached_property
    def _units(self) -> HostArray:
        """The number of the independent unit, a row or a cluster, that each row belongs to."""
        return np.arange(len(self.columns[0])) if self.clusters is None else self.clusters

    def se(self, metric: OfOutcomes, resampling: Resampling) -> float:
        """The standard error of the metric."""
        return _spread(self._replicates(metric, resampling), self._kind(resampling))

    def difference_se(self, first: "KeptRows", metric: OfOutcomes, resampling: Resampling) -> float:
        """The standard error of the difference between the metrics of these and other outcomes of the same rows."""
        mine, theirs = (outcomes._replicates(metric, resampling) for outcomes in (self, first))
        return _spread(mine - theirs, self._kind(resampling))

    def _kind(self, resampling: Resampling) -> Resampling:
        """Draw units instead of leaving them out, because a weight may stand for many samples."""
        return "bootstrap" if self.counts else resampling

    def _replicates(self, metric: OfOutcomes, resampling: Resampling) -> HostArray:
        key = metric, self._kind(resampling)
        if key not in self._computed:
            *numbers, weights = self.columns
            replicates = []
            with np.errstate(divide="ignore", invalid="ignore"):  # a part may have no wrong answer, say
                for redrawn in self._without_groups(weights) if key[1] == "jackknife" else self._draws(weights):
                    kept = redrawn > 0
                    replicates.append(float(metric(*(column[kept] for column in (*numbers, redrawn)))))
            self._computed[key] = np.array(replicates)
        return self._computed[key]

    def _without_groups(self, weights: HostArray) -> Iterator[HostArray]:
        """The weights with those of one group of units set to zero, for each group."""
        n_units = int(self._units.max()) + 1
        n_groups = min(n_units, _GROUPS)
        group = np.random.default_rng(_SEED).permutation(n_units) % n_groups
        of_row = group[self._units]
        for number in range(n_groups):
            yield np.where(of_row == number, 0.0, weights)

    def _draws(self, weights: HostArray) -> Iterator[HostArray]:
        """The weights of random draws of as many units as there are."""
        rng, n_units = np.random.default_rng(_SEED), int(self._units.max()) + 1
        for _ in range(_DRAWS):
            if self.counts:
                yield rng.multinomial(round(weights.sum()), weights / weights.sum()).astype(float)
            else:
                yield weights * np.bincount(rng.integers(n_units, size=n_units), minlength=n_units)[self._units]


def _spread(replicates: HostArray, resampling: Resampling) -> float:
    """The standard error from replicates of a metric."""
    if resampling == "bootstrap":
        return float(np.std(replicates, ddof=1))
    n = len(replicates)
    return sqrt((n - 1) / n * float(((replicates - replicates.mean()) ** 2).sum()))
