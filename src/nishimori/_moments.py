"""Everything nishimori fits is a sum over rows; this is the sum.

A `Moments` is what remains of the data once they have been read. Adding two gives the moments of the rows behind both, so
chunks, processes and days of traffic combine with ``+`` and nothing has to be kept. It knows its observable and its β, and
refuses to add to others. `GapSums` are the moments of several observables with the products of their gaps, from which error
bars follow.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import inf
from typing import Any

import numpy as np

from nishimori import _array
from nishimori._array import HostArray
from nishimori._gibbs import Gibbs
from nishimori._inputs import Batch
from nishimori._kernels import Kernel
from nishimori._observables import Confidence, Energy, Observable
from nishimori._pairs import pair_sums
from nishimori._passes import Mean
from nishimori.errors import MergeError

_ORDER = 4

# exp(βd) has an error of βd units in the last place, and rows with βd below -40 matter only to larger weights.
_NOISE = 64 * float(np.finfo(float).eps)


@dataclass(frozen=True)
class Moments:
    """Weighted sums of one observable: at the labels, and of the gaps at each of some β with three derivatives.

    ``size`` says what the rounding of the gaps is relative to; ``spread`` is the sum of the squares of weight times slope.
    """

    observable: Observable
    betas: tuple[float, ...]
    weight: float
    observed: float
    excess: HostArray
    size: HostArray
    slope: HostArray
    curvature: HostArray
    jerk: HostArray
    spread: HostArray

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
            self.jerk + other.jerk,
            self.spread + other.spread,
        )

    def at(self, some: slice) -> "Moments":
        """The moments at some of the β."""
        arrays = (each[some] for each in (self.excess, self.size, self.slope, self.curvature, self.jerk, self.spread))
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
        noise: HostArray = _NOISE * self.size / self.weight
        return noise


@dataclass(frozen=True)
class GapSums:
    """The moments of several observables, and the products of their gaps, each at its own first β.

    Attributes
    ----------
    items : tuple of Moments
        In the order in which the observables were asked for.
    products, square_products : array of shape (m, m)
        Σ w·g_a·g_b and Σ w²·g_a·g_b over rows: second moments on the diagonal, cross products beside it. The second is that of
        independent rows; where rows belong to clusters, or weights are counts, it holds what takes its place.
    squares : float
        Σ w².
    """

    items: tuple[Moments, ...]
    products: HostArray
    square_products: HostArray
    squares: float

    def with_counts(self) -> "GapSums":
        """The same, where a weight of w stands for w independent rows."""
        return replace(self, square_products=self.products)

    def __add__(self, other: "GapSums") -> "GapSums":
        return GapSums(
            tuple(mine + theirs for mine, theirs in zip(self.items, other.items, strict=True)),
            self.products + other.products,
            self.square_products + other.square_products,
            self.squares + other.squares,
        )


# Where their sums are among those of a pair, and where their products are.
_PAIRED: dict[type, int] = {Confidence: 0, Energy: 1}
_PRODUCTS = np.array([[12, 14], [14, 13]])


@cache
def _product_places(items: tuple[int, ...]) -> HostArray:
    places: HostArray = _PRODUCTS[np.ix_(items, items)]
    return places


@dataclass(frozen=True)
class Measure:
    """The pass that gives the moments of several observables, each at some β of its own.

    One call of the kernel serves all of them. With ``exact`` it computes in float64, else in the precision of the logits.
    """

    wanted: tuple[tuple[Observable, tuple[float, ...]], ...]
    exact: bool = True

    @cached_property
    def _betas(self) -> tuple[float, ...]:
        return tuple(dict.fromkeys(beta for _, betas in self.wanted for beta in betas))

    def is_fused_by(self, kernel: Kernel) -> bool:
        """Whether the kernel gives all that is wanted without a number per row."""
        return kernel.fused is not None and self._is_paired and all(0 < betas[0] < inf for _, betas in self.wanted)

    @cached_property
    def _is_paired(self) -> bool:
        return all(type(each) in _PAIRED and len(betas) == 1 for each, betas in self.wanted)

    def __call__(self, batch: Batch) -> GapSums:
        if self._is_paired:
            return self._paired(batch)
        ready = [observable._on(batch) for observable, _ in self.wanted]
        powers: list[Any] = [None] * len(self._betas)
        if any(not rows.uses_tables for rows in ready):
            powers = self._powers(batch)
        observed = [rows.observed(batch) for rows in ready]
        sums = [np.empty((6, len(betas))) for _, betas in self.wanted]
        values: list[Any] = [None] * len(ready)
        for beta, known in zip(self._betas, powers, strict=True):
            gibbs = Gibbs(batch, beta, known)
            for i, ((_, betas), rows, at_labels) in enumerate(zip(self.wanted, ready, observed, strict=True)):
                if beta in betas:  # perhaps more than once
                    gap = rows.gap(gibbs, at_labels)
                    found = np.append(batch.totals(gap), batch.totals([gap.slope**2], squared=True))
                    sums[i][:, np.equal(betas, beta)] = found[:, None]
                    if beta == betas[0]:
                        values[i] = gap.value
        moments = tuple(
            Moments(observable, betas, batch.weight, batch.total(at_labels), *parts)
            for (observable, betas), at_labels, parts in zip(self.wanted, observed, sums, strict=True)
        )
        return GapSums(moments, *_products(batch, values))

    def _paired(self, batch: Batch) -> GapSums:
        """The same in the commonest case: confidence, energy or both, at one β each."""
        betas = {type(each): beta for each, (beta,) in self.wanted}
        first = self.wanted[0][1][0]
        sums = pair_sums(batch, betas.get(Confidence, first), betas.get(Energy, first), exact=self.exact)
        weight, squares, right, at_labels = sums[18:].tolist()
        observed = {Confidence: right - weight, Energy: at_labels}
        places = tuple(_PAIRED[type(each)] for each, _ in self.wanted)
        products = _product_places(places)
        return GapSums(
            tuple(
                Moments(each, each_betas, weight, observed[type(each)], *sums[6 * i : 6 * i + 6, None])
                for i, (each, each_betas) in zip(places, self.wanted, strict=True)
            ),
            sums[products],
            sums[products + 3],
            squares,
        )

    def _powers(self, batch: Batch) -> list[Any]:
        """The power sums at each β, in one call for those that are neither 0 nor infinite."""
        usual = [beta for beta in self._betas if 0 < beta < inf]
        ends = [beta for beta in self._betas if not 0 < beta < inf]
        found: dict[float, Any] = {}
        for betas, exact in ((usual, self.exact), (ends, True)):
            if betas:
                sums = batch.power_sums(betas, _ORDER, exact=exact)
                found |= {beta: sums[i, ...] for i, beta in enumerate(betas)}
        return [found[beta] for beta in self._betas]


def _products(batch: Batch, values: Sequence[Any]) -> tuple[HostArray, HostArray, float]:
    """The products of gaps, with weights and with squared weights, and the sum of squared weights."""
    xp, table = batch.xp, batch.xp.stack(list(values))
    weighted = table * batch.weights
    squares = float(batch.totals([batch.weights])[0])
    both = _array.on_host(xp.stack([weighted @ table.T, weighted @ weighted.T]))
    return both[0], both[1], squares


def measure(batch: Batch, observable: Observable, betas: Sequence[float]) -> Moments:
    """The moments of one observable on one batch."""
    return Measure(((observable, tuple(betas)),))(batch).items[0]


def log_scale(batch: Batch) -> Mean:
    """The logarithm of how far the second largest logit lies below the largest: where β has to be found.

    A constant per row does not move it, and near ties and soft masks hardly move a mean of logarithms.
    """
    xp = batch.xp
    lead = xp.max(batch.double, axis=1) - xp.min(_array.largest(batch.double, 2), axis=1)
    known = (lead > 0) & xp.isfinite(lead)
    logarithms = xp.where(known, xp.log(xp.where(known, lead, xp.ones_like(lead))), xp.zeros_like(lead))
    return Mean(batch.total(logarithms), batch.weight)
