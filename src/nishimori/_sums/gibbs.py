"""p(k) ∝ exp(βz_k): the distribution that every measurement uses, from the power sums of its rows.

For the rows of a batch at one β this gives the partition function and the averages of the drop d = z - max(z) that the
observables are made of. The top class, whose weight is 1, is kept apart from the rest: a sure row has a rest of 1e-20, which
1 + rest forgets. Tables with a number per class are made only for what needs them: observables of users and classwise claims.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from nishimori._kernels.array_api import boltzmann
from nishimori._support import arrays
from nishimori._support.arrays import Array


class Gibbs:
    """The distribution of each row of a batch at inverse temperature ``beta``, from 0 (uniform) to infinity (the maximum).

    ``powers`` are the power sums of the rows, as far as they are known already.
    """

    def __init__(self, batch: Any, beta: float, powers: Array | None = None) -> None:
        self.batch = batch
        self.beta = beta
        self._powers = powers

    @classmethod
    def of_scores(cls, batch: Any, betas: Sequence[float]) -> "list[Gibbs]":
        """One for each β, with what their losses and Brier scores need from one call of the kernel."""
        batch.rests([*betas, *(2 * beta for beta in betas)])
        return [cls(batch, beta) for beta in betas]

    @property
    def squares(self) -> Array:
        """The sum of the squared weights of all classes but the top one: of the weights at 2β."""
        return self.batch.rests((2 * self.beta,))[0]

    def powers(self, order: int) -> Array:
        """Σ d^j exp(βd) over the classes other than the top one, for j from 0 to at least ``order``."""
        if self._powers is None or self._powers.shape[0] <= order:
            self._powers = self.batch.power_sums((self.beta,), order)[0, ...]
        return self._powers

    @property
    def rest(self) -> Array:
        """The weight of all classes but the top one, whose own is 1."""
        return self.batch.rests((self.beta,))[0] if self._powers is None else self._powers[0, ...]

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
        return self.batch.xp.log1p(self.rest) - self.beta * self.batch.label_drops

    @property
    def brier(self) -> Array:
        """The squared distance between probabilities and truth, summed over classes."""
        batch, xp = self.batch, self.batch.xp
        true = xp.exp(self.beta * batch.label_drops)
        wrong_classes = xp.where(batch.right, self.squares, 1 + self.squares - true**2) * self.top**2
        return xp.where(batch.right, self.doubt, 1 - true * self.top) ** 2 + wrong_classes

    @cached_property
    def moments(self) -> tuple[Array, Array, Array]:
        """⟨d⟩, ⟨d²⟩ and ⟨d³⟩."""
        powers = self.powers(3)
        return powers[1, ...] * self.top, powers[2, ...] * self.top, powers[3, ...] * self.top

    def cumulants(self, average: Array, with_drop: Array, with_square: Array) -> tuple[Array, Array]:
        """First and second derivative in β of ⟨O⟩, from ⟨O⟩, ⟨Od⟩ and ⟨Od²⟩.

        These are the joint cumulants of O with d and with d twice. Counted from the top of the row, which always holds at
        least 1/k of the probability, they lose no more digits than k has.
        """
        mean, square, _ = self.moments
        slope = with_drop - average * mean
        return slope, with_square - average * square - 2 * mean * slope

    def jerk(self, averages: Sequence[Array], slope: Array, curvature: Array) -> Array:
        """Third derivative in β of ⟨O⟩, from ⟨O⟩, ⟨Od⟩, ⟨Od²⟩ and ⟨Od³⟩ and the first two derivatives."""
        mean, square, cube = self.moments
        average, _, with_square, with_cube = averages
        spread = 3 * square - 2 * mean**2
        return with_cube - mean * with_square - average * (cube - mean * square) - slope * spread - 2 * mean * curvature

    @cached_property
    def probabilities(self) -> Array:
        """A table with the probability of each class."""
        batch, xp = self.batch, self.batch.xp
        weights = boltzmann(batch.drops, self.beta, xp)
        if batch.live is not None:
            weights = xp.where(batch.live, weights, xp.zeros_like(weights))
        return arrays.with_entries(weights * self.top[:, None], batch.top, self.top[:, None])

    def over_classes(self, table: Array) -> Array:
        """The sum of each row of ``table``."""
        return table @ self.batch.ones
