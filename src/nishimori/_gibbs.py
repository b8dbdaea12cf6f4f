"""p(k) ∝ exp(βz_k): the distribution that every measurement uses, and the code that takes most of the time.

For the rows of a batch at one β this gives the partition function and the averages of the drop d = z - max(z) that the
observables are made of. Sums over classes are products with a vector of ones, which is the fastest way in every array library.
"""

from functools import cached_property
from math import inf
from typing import Any

from nishimori._array import Array
from nishimori._inputs import Batch


def boltzmann(drops: Array, beta: float, xp: Any) -> Array:
    """exp(βd): 1 at the top of each row; everywhere at β = 0, and nowhere else at β = ∞."""
    if beta == 0:
        return xp.ones_like(drops)
    return xp.astype(drops == 0, drops.dtype) if beta == inf else xp.exp(beta * drops)


class Gibbs:
    """The distribution of each row of a batch at inverse temperature ``beta``, from 0 (uniform) to infinity (the maximum)."""

    def __init__(self, batch: Batch, beta: float) -> None:
        self.batch = batch
        self.beta = beta

    @cached_property
    def weights(self) -> Array:
        """Unnormalised probabilities: 1 at the top of each row, 0 where masked."""
        weights = boltzmann(self.batch.drops, self.beta, self.batch.xp)
        return weights if self.batch.live is None else self.batch.xp.where(self.batch.live, weights, 0 * weights)

    @cached_property
    def partition(self) -> Array:
        """The sum of the weights of each row."""
        return self.over_classes(self.weights)

    def over_classes(self, table: Array) -> Array:
        """The sum of each row of ``table``."""
        return table @ self.batch.ones[: table.shape[1]]

    @property
    def top(self) -> Array:
        """The probability of the predicted class: the confidence."""
        return 1 / self.partition

    @property
    def nll(self) -> Array:
        """Minus the log-probability of each true class."""
        return self.batch.xp.log(self.partition) - self.beta * self.batch.label_drops

    @property
    def brier(self) -> Array:
        """The squared distance between probabilities and truth, summed over classes."""
        true = self.batch.at(self.weights, self.batch.labels) / self.partition
        # Squares of the weights: the probabilities themselves would take another table.
        others = self.over_classes(self.weights**2) / self.partition**2 - true**2
        return (1 - true) ** 2 + others

    @cached_property
    def probabilities(self) -> Array:
        return self.weights / self.partition[:, None]

    @cached_property
    def moments(self) -> tuple[Array, Array, Array]:
        """⟨d⟩, ⟨d²⟩ and ⟨d³⟩."""
        product = self.weights * self.batch.drops
        first = self.over_classes(product) / self.partition
        product *= self.batch.drops  # in place where the library can: a new array each time costs as much as the product
        second = self.over_classes(product) / self.partition
        product *= self.batch.drops
        return first, second, self.over_classes(product) / self.partition

    def cumulants(self, average: Array, with_drop: Array, with_square: Array) -> tuple[Array, Array]:
        """First and second derivative in β of ⟨O⟩, from ⟨O⟩, ⟨Od⟩ and ⟨Od²⟩.

        These are the joint cumulants of O with d and with d twice. Counted from the top of the row, which always holds at
        least 1/k of the probability, they lose no more digits than k has.
        """
        mean, square, _ = self.moments
        slope = with_drop - average * mean
        return slope, with_square - average * square - 2 * mean * slope
