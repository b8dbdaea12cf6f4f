"""Everything nishimori fits is a sum over rows; this is the sum.

A `Moments` is what remains of the data once they have been read. Adding two gives the moments of the rows behind both, so
chunks, processes and days of traffic combine with ``+`` and nothing has to be kept. It knows its observable and its β, and
refuses to add to others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nishimori import _array
from nishimori._array import HostArray
from nishimori._gibbs import Gibbs
from nishimori._inputs import Batch
from nishimori._observables import Observable
from nishimori._passes import Mean, Sums
from nishimori.errors import MergeError


@dataclass(frozen=True)
class Moments:
    """Weighted sums of one observable: at the labels, and of the gaps at each of some β with two derivatives.

    ``size`` says what the rounding of the gaps is relative to.
    """

    observable: Observable
    betas: tuple[float, ...]
    weight: float
    observed: float
    excess: HostArray
    size: HostArray
    slope: HostArray
    curvature: HostArray

    def __add__(self, other: "Moments") -> "Moments":
        if (self.observable, self.betas) != (other.observable, other.betas):
            raise MergeError(
                f"Moments add only if they are of the same observable at the same β, got {self.observable} at {self.betas} and "
                f"{other.observable} at {other.betas}. Measure both in the same way."
            )
        return Moments(
            self.observable,
            self.betas,
            self.weight + other.weight,
            self.observed + other.observed,
            self.excess + other.excess,
            self.size + other.size,
            self.slope + other.slope,
            self.curvature + other.curvature,
        )

    def at(self, some: slice) -> "Moments":
        """The moments at some of the β."""
        arrays = (each[some] for each in (self.excess, self.size, self.slope, self.curvature))
        return Moments(self.observable, self.betas[some], self.weight, self.observed, *arrays)

    @property
    def gap(self) -> HostArray:
        """How far the model's mean lies above the labels', at each β: zero where they are consistent."""
        gap: HostArray = self.excess / self.weight
        return gap

    @property
    def expected(self) -> HostArray:
        """The sum under the model, at each β, counted from the value at the top as `observed` is."""
        expected: HostArray = self.excess + self.observed
        return expected

    @property
    def noise(self) -> HostArray:
        """How large a gap rounding alone can make."""
        # exp(βd) has an error of βd units in the last place, and rows with βd below -40 matter only to larger weights.
        noise: HostArray = 64 * np.finfo(float).eps * self.size / self.weight
        return noise


@dataclass(frozen=True)
class Measure:
    """The pass that gives the moments of several observables, each at some β of its own.

    Observables that ask for the same β are handed the same distribution, and only one distribution is in memory at a time.
    """

    wanted: tuple[tuple[Observable, tuple[float, ...]], ...]

    def __call__(self, batch: Batch) -> Sums:
        ready = [observable._on(batch) for observable, _ in self.wanted]
        observed = [rows.observed(batch) for rows in ready]
        sums = [np.empty((4, len(betas))) for _, betas in self.wanted]
        for beta in dict.fromkeys(beta for _, betas in self.wanted for beta in betas):
            gibbs = Gibbs(batch, beta)
            for (_, betas), rows, at_labels, out in zip(self.wanted, ready, observed, sums, strict=True):
                if beta in betas:  # perhaps more than once
                    out[:, np.equal(betas, beta)] = [[batch.total(part)] for part in rows.gap(gibbs, at_labels)]
        return Sums(
            tuple(
                Moments(observable, betas, batch.weight, batch.total(at_labels), *parts)
                for (observable, betas), at_labels, parts in zip(self.wanted, observed, sums, strict=True)
            )
        )


def measure(batch: Batch, observable: Observable, betas: Sequence[float]) -> Moments:
    """The moments of one observable on one batch."""
    moments: Moments = Measure(((observable, tuple(betas)),))(batch).items[0]
    return moments


def log_scale(batch: Batch) -> Mean:
    """The logarithm of how far the second largest logit lies below the largest: where β has to be found.

    A constant per row does not move it, and near ties and soft masks hardly move a mean of logarithms.
    """
    xp = batch.xp
    lead = xp.max(batch.logits, axis=1) - xp.min(_array.largest(batch.logits, 2), axis=1)
    known = (lead > 0) & xp.isfinite(lead)
    logarithms = xp.where(known, xp.log(xp.where(known, lead, xp.ones_like(lead))), xp.zeros_like(lead))
    return Mean(batch.total(logarithms), batch.weight)
