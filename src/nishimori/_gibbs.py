"""p(k) ∝ exp(βz_k): the distribution behind everything, and the one hot loop.

For the rows of a batch at one β this gives the partition function and the averages of the drop d = z - max(z) that the
observables are made of. Sums over classes are products with a vector of ones, which every array library does fastest.
"""

from functools import cached_property
from math import inf
from typing import Any

from nishimori._array import Array
from nishimori._inputs import Batch


def boltzmann(drops: Array, beta: float, xp: Any) -> Array:
    """exp(βd): 1 at the top of each row; at infinite β, 0 everywhere else."""
    return xp.astype(drops == 0, drops.dtype) if beta == inf else xp.exp(beta * drops)


class Gibbs:
    """The distribution of each row of a batch at inverse temperature ``beta``, from 0 (uniform) to infinity (the maximum)."""

    def __init__(self, batch: Batch, beta: float) -> None:
        weights = boltzmann(batch.drops, beta, batch.xp)
        self.batch = batch
        self.beta = beta
        # Unnormalised probabilities: 1 at the top of each row, 0 where masked.
        self.weights: Array = weights if batch.live is None else batch.xp.where(batch.live, weights, 0 * weights)
        self.partition: Array = self.over_classes(self.weights)

    def over_classes(self, table: Array) -> Array:
        """The sum of each row of ``table``."""
        return table @ self.batch.xp.ones_like(table[0, :])

    @property
    def top(self) -> Array:
        """The probability of the predicted class: the confidence."""
        return 1 / self.partition

    @property
    def rest(self) -> Array:
        """One minus the confidence, exact also where the confidence rounds to 1."""
        return (self.partition - 1) / self.partition

    @property
    def probabilities(self) -> Array:
        return self.weights / self.partition[:, None]

    @cached_property
    def _weighted_drops(self) -> Array:
        return self.weights * self.batch.drops

    @cached_property
    def mean(self) -> Array:
        """⟨d⟩, the average drop."""
        return self.over_classes(self._weighted_drops) / self.partition

    @cached_property
    def variance(self) -> Array:
        """⟨d²⟩ - ⟨d⟩², the slope of ⟨d⟩ in β."""
        # Safe from cancellation because d counts from the top, which always holds at least 1/k of the probability.
        return self.over_classes(self._weighted_drops * self.batch.drops) / self.partition - self.mean**2
