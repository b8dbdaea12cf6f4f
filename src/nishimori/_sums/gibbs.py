"""p(k) ∝ exp(βz_k): the distribution that every measurement uses, from the power sums of its rows.

For the rows of a batch at one β this gives the partition function and the averages of the drop d = z - max(z) that the
observables are made of. The top class, whose weight is 1, is kept apart from the rest: a sure row has a rest of 1e-20, which
1 + rest forgets. Tables with a number per class are made only for what needs them: observables of users and classwise claims.
"""

from collections.abc import Sequence
from functools import cached_property
from math import comb

from nishimori._kernels.array_api import boltzmann
from nishimori._kernels.row_sums import RowSums, row_sums
from nishimori._rows.batch import Batch
from nishimori._support import arrays
from nishimori._support.arrays import Array


def sums_for_scores(batch: Batch, betas: Sequence[float]) -> RowSums:
    """The power sums that losses and Brier scores at some β need, from one call of the kernel."""
    return row_sums(batch, tuple(dict.fromkeys([*betas, *(2 * beta for beta in betas)])), 0)


def derivatives(averages: Sequence[Array], moments: Sequence[Array]) -> tuple[Array, ...]:
    """The derivatives in β of an average a₀ = ⟨O⟩ from aⱼ = ⟨Odʲ⟩ and mⱼ = ⟨dʲ⟩: a⁽ⁿ⁾ = aₙ - Σ C(n, k)·a⁽ᵏ⁾·mₙ₋ₖ over k < n.

    It is Leibniz's rule for the product ⟨O⟩·Z, whose derivatives are the sums Σ O·dⁿ·exp(βd). Counted from the top of the row,
    which always holds at least 1/k of the probability, they lose no more digits than k has.
    """
    found = [averages[0]]
    for n, average in enumerate(averages[1:], 1):
        found.append(average - sum(comb(n, k) * found[k] * moments[n - k - 1] for k in range(n)))
    return tuple(found[1:])


class Gibbs:
    """The distribution of each row of a batch at inverse temperature ``beta``, from 0 (uniform) to infinity (the maximum).

    ``known`` are the power sums of the rows, as far as they are known already: those at several β take one call of the kernel.
    What is missing is computed when it is asked for.
    """

    def __init__(self, batch: Batch, beta: float, known: RowSums | None = None) -> None:
        self.batch = batch
        self.beta = beta
        self._known = [] if known is None else [known]

    @property
    def squares(self) -> Array:
        """The sum of the squared weights of all classes but the top one: of the weights at 2β."""
        if not any(each.has(2 * self.beta) for each in self._known):
            self._known.append(sums_for_scores(self.batch, (self.beta,)))
        return self._sums(2 * self.beta, 0)[0, ...]

    def powers(self, order: int) -> Array:
        """Σ d^j exp(βd) over the classes other than the top one, for j from 0 to at least ``order``."""
        return self._sums(self.beta, order)

    def _sums(self, beta: float, order: int) -> Array:
        for known in self._known:
            if known.has(beta, order):
                return known.at(beta)
        self._known.append(row_sums(self.batch, (beta,), order))
        return self._known[-1].at(beta)

    @property
    def _rows(self) -> Batch | RowSums:
        """What says which answers are right: what a kernel has found, if one was asked."""
        return self._known[0] if self._known else self.batch

    @property
    def predicted(self) -> Array:
        """The predicted class of each row."""
        return self._rows.top

    @property
    def right(self) -> Array:
        """Whether the predicted class is the true one."""
        return self._rows.right

    @property
    def label_drops(self) -> Array:
        """The drop of each row's true class: 0 if it is a top class, -inf if it is masked."""
        return self._rows.label_drops

    @cached_property
    def rest(self) -> Array:
        """The weight of all classes but the top one, whose own is 1."""
        return self.powers(0)[0, ...]

    @cached_property
    def partition(self) -> Array:
        """The rest and the weight of the top class."""
        return 1 + self.rest

    @cached_property
    def top(self) -> Array:
        """The probability of the predicted class: the confidence."""
        return 1 / self.partition

    @cached_property
    def doubt(self) -> Array:
        """One minus the confidence, with all its digits."""
        return self.rest * self.top

    @property
    def nll(self) -> Array:
        """Minus the log-probability of each true class."""
        return self.batch.xp.log1p(self.rest) - self.beta * self.label_drops

    @property
    def brier(self) -> Array:
        """The squared distance between probabilities and truth, summed over classes."""
        xp, squares = self.batch.xp, self.squares  # first: one call of the kernel gives all that is needed here
        true = xp.exp(self.beta * self.label_drops)
        wrong_classes = xp.where(self.right, squares, 1 + squares - true**2) * self.top**2
        return xp.where(self.right, self.doubt, 1 - true * self.top) ** 2 + wrong_classes

    @cached_property
    def moments(self) -> tuple[Array, ...]:
        """⟨d⟩ to ⟨d⁵⟩."""
        powers = self.powers(5)
        return tuple(powers[j, ...] * self.top for j in range(1, 6))

    def derivatives(self, averages: Sequence[Array]) -> tuple[Array, ...]:
        """The derivatives in β of ⟨O⟩, as many as there are averages ⟨O⟩, ⟨Od⟩, ⟨Od²⟩, ... after the first."""
        return derivatives(averages, self.moments)

    @cached_property
    def probabilities(self) -> Array:
        """A table with the probability of each class."""
        batch, xp = self.batch, self.batch.xp
        weights = boltzmann(batch.drops, self.beta, xp)
        if batch.live is not None:
            weights = xp.where(batch.live, weights, xp.zeros_like(weights))
        return arrays.with_entries(weights * self.top[:, None], self.predicted, self.top[:, None])

    def over_classes(self, table: Array) -> Array:
        """The sum of each row of ``table``."""
        return table @ self.batch.ones
