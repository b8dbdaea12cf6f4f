"""p(k) ∝ exp(βz_k): the distribution that every measurement uses, and the code that takes most of the time.

For the rows of a batch at one β this gives the partition function and the averages of the drop d = z - max(z) that the
observables are made of. The top class, whose weight is 1, is kept apart from the rest: a sure row has a rest of 1e-20, which
1 + rest forgets. Sums over classes are products with a vector of ones, which is the fastest way in every array library.
"""

from functools import cached_property
from math import inf
from typing import Any

from nishimori import _array
from nishimori._array import Array
from nishimori._inputs import Batch


def boltzmann(drops: Array, beta: float, xp: Any) -> Array:
    """exp(βd), and 0 where d is -inf: at β = 0 it is 1 elsewhere, at β = ∞ it is 1 where d is 0."""
    if beta in (0, inf):
        return xp.astype(drops > -inf if beta == 0 else drops == 0, drops.dtype)
    return xp.exp(beta * drops)


class Gibbs:
    """The distribution of each row of a batch at inverse temperature ``beta``, from 0 (uniform) to infinity (the maximum)."""

    def __init__(self, batch: Batch, beta: float) -> None:
        self.batch = batch
        self.beta = beta

    @cached_property
    def weights(self) -> Array:
        """Unnormalised probabilities of the classes other than the top one, whose own is 1; 0 there and where masked."""
        batch, xp = self.batch, self.batch.xp
        weights = _array.with_entries(boltzmann(batch.drops, self.beta, xp), batch.top, 0.0)
        return weights if batch.live is None else xp.where(batch.live, weights, xp.zeros_like(weights))

    @cached_property
    def rest(self) -> Array:
        """The sum of the weights of each row."""
        return self.over_classes(self.weights)

    @cached_property
    def partition(self) -> Array:
        """The rest and the weight of the top class."""
        return 1 + self.rest

    def over_classes(self, table: Array) -> Array:
        """The sum of each row of ``table``."""
        return table @ self.batch.ones[: table.shape[1]]

    @property
    def top(self) -> Array:
        """The probability of the predicted class: the confidence."""
        return 1 / self.partition

    @property
    def doubt(self) -> Array:
        """One minus the confidence, with all its digits."""
        return self.rest / self.partition

    @property
    def nll(self) -> Array:
        """Minus the log-probability of each true class."""
        return self.batch.xp.log1p(self.rest) - self.beta * self.batch.label_drops

    @property
    def brier(self) -> Array:
        """The squared distance between probabilities and truth, summed over classes."""
        batch, xp = self.batch, self.batch.xp
        right = batch.top == batch.labels
        true = batch.at(self.weights, batch.labels)
        # Squares of the weights: the probabilities themselves would take another table.
        squares = self.over_classes(self.weights**2)
        wrong_classes = xp.where(right, squares, 1 + squares - true**2) / self.partition**2
        return xp.where(right, self.doubt, 1 - true / self.partition) ** 2 + wrong_classes

    @cached_property
    def probabilities(self) -> Array:
        return _array.with_entries(self.weights / self.partition[:, None], self.batch.top, self.top[:, None])

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
