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
from typing import Any, NamedTuple

import numpy as np

from nishimori._kernels.block import BlockSums
from nishimori._kernels.row_sums import RowSums, block_sums, kernel_of, row_sums, takes_unchecked
from nishimori._rows.batch import Batch
from nishimori._sums.gibbs import Gibbs
from nishimori._sums.observables import Confidence, Energy, Observable
from nishimori._sums.passes import Findings, KernelPass, Mean
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray, largest, namespace, on_host
from nishimori.errors import MergeError

_PAIR_ORDER = 4


def sum_pair(batch: Batch, beta_ec: float, beta_ts: float, *, exact: bool) -> tuple[HostArray, BlockSums | RowSums]:
    """The `pair_sums` of one batch, and what the kernel returned for them."""
    block = block_sums(batch, beta_ec, beta_ts, exact=exact)
    if block is not None:
        return block.sums, block
    rows = row_sums(batch, tuple(dict.fromkeys((beta_ec, beta_ts))), _PAIR_ORDER, exact=exact)
    return pair_sums(rows.at(beta_ec), rows.at(beta_ts), rows.right, rows.label_drops, batch.weights), rows


def pair_sums(ec_powers: Array, ts_powers: Array, right: Array, label_drops: Array, w: Array) -> HostArray:
    """The sums that confidence and energy need, each at its own β, from the power sums 0 to 4 of each row at both."""
    xp = namespace(w)
    gap, slope, weighted_slope, confidence = _confidence(ec_powers, right, w, xp)
    excess, variance, weighted_variance, energy = _energy(ts_powers, label_drops, w, xp)
    weighted, weighted_excess = w * gap, w * excess
    with np.errstate(invalid="ignore"):  # an infinite gap, of a masked label, times a slope of zero; such sums are not used
        slope_products = [
            *(weighted_slope @ slope, weighted_variance @ variance, weighted_slope @ variance),
            *(gap @ weighted_slope, excess @ weighted_variance, gap @ weighted_variance, excess @ weighted_slope),
            *(weighted_slope @ weighted_variance, weighted @ weighted_slope, weighted_excess @ weighted_variance),
            *(weighted @ weighted_variance, weighted_excess @ weighted_slope),
        ]
    sums = [
        *confidence,
        *energy,
        *(weighted @ gap, weighted_excess @ excess, weighted @ excess),
        *(weighted @ weighted, weighted_excess @ weighted_excess, weighted @ weighted_excess),
        *(xp.sum(w), w @ w, w @ xp.astype(right, w.dtype), w @ label_drops),
        *slope_products,
    ]
    return np.array(sums) if isinstance(w, np.ndarray) else arrays.on_host(xp.stack(sums))


# The derivatives of an average in β are its joint cumulants with the drop. They are summed term by term: a product of two
# vectors costs a third of a new vector. With c the confidence and mⱼ = ⟨dʲ⟩,
#     c' = -c·m₁,   c'' = c(2m₁² - m₂),   c''' = c(6m₁m₂ - 6m₁³ - m₃)
#     m₁' = m₂ - m₁²,   m₁'' = m₃ - 3m₁m₂ + 2m₁³,   m₁''' = m₄ - 4m₁m₃ - 3m₂² + 12m₁²m₂ - 6m₁⁴


def _confidence(powers: Array, right: Array, w: Array, xp: Any) -> tuple[Array, Array, Array, list[Any]]:
    """The gap of the confidence in each row, its slope, that times the weight, and its six sums."""
    c = 1 / (1 + powers[0, ...])
    table = powers[:4, ...] * c
    doubt, m1, m2, m3 = (table[j, ...] for j in range(4))
    gap = xp.where(right, -doubt, c)
    wc, square, slope = w * c, m1 * m1, -(c * m1)
    wc1, weighted_slope = wc * m1, w * slope
    curvature = 2 * (wc @ square) - wc @ m2
    jerk = 6 * (wc1 @ m2) - 6 * (wc1 @ square) - wc @ m3
    sums = [w @ gap, w @ xp.abs(gap), -(wc @ m1), curvature, jerk, weighted_slope @ weighted_slope]
    return gap, slope, weighted_slope, sums


def _energy(powers: Array, label_drops: Array, w: Array, xp: Any) -> tuple[Array, Array, Array, list[Any]]:
    """The gap of the energy in each row, its slope, that times the weight, and its six sums."""
    table = powers[1:5, ...] * (1 / (1 + powers[0, ...]))
    m1, m2, m3, m4 = (table[j, ...] for j in range(4))
    gap, square = m1 - label_drops, m1 * m1
    w1, w2, wsquare = w * m1, w * m2, w * square
    variance = m2 - square
    weighted_variance = w * variance
    curvature = w @ m3 - 3 * (w1 @ m2) + 2 * (w1 @ square)
    jerk = w @ m4 - 4 * (w1 @ m3) - 3 * (w2 @ m2) + 12 * (wsquare @ m2) - 6 * (wsquare @ square)
    size = -(w @ m1 + w @ label_drops)  # neither is ever positive
    sums = [w @ gap, size, xp.sum(weighted_variance), curvature, jerk, weighted_variance @ weighted_variance]
    return gap, variance, weighted_variance, sums


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
    slope_products : array of shape (2, m, 2m), or None
        Σ w·s_a·g_b, beside it Σ w·s_a·s_b, with s for the derivative of a row's gap in β, and the same with w²: they carry the
        products to another β. None if the products are where they are wanted.
    """

    items: tuple[Moments, ...]
    products: HostArray
    square_products: HostArray
    squares: float
    slope_products: HostArray | None = None

    def subset(self, positions: Sequence[int]) -> "GapSums":
        """The moments and products of gaps of some of the observables."""
        places, m = np.array(positions), len(self.items)
        both = np.ix_(places, places)
        slopes = self.slope_products
        return GapSums(
            tuple(self.items[i] for i in positions),
            self.products[both],
            self.square_products[both],
            self.squares,
            None if slopes is None else slopes[:, places[:, None], np.append(places, m + places)],
        )

    def extrapolate_to(self, betas: Sequence[float]) -> "CarriedSums":
        """The products of gaps at other β, one per observable: the gap of each row is continued by its slope."""
        assert self.slope_products is not None, "these are where they are wanted"
        m = len(self.items)
        steps = np.array(betas) - [each.betas[0] for each in self.items]
        changes = steps[:, None] * self.slope_products
        with_gaps, with_slopes = changes[..., :m], changes[..., m:] * steps
        before = np.stack([self.products, self.square_products])
        products = before + with_gaps + with_gaps.transpose(0, 2, 1) + with_slopes
        # What the slopes add, relative to the result: far more than 1 where one row decides whose gap almost vanishes there.
        squares, added = (np.diagonal(each, axis1=1, axis2=2) for each in (products, with_slopes))
        shares = np.full(squares.shape, np.inf)
        np.divide(added, squares, out=shares, where=squares > 0)
        shares[added == 0] = 0.0
        return CarriedSums(
            replace(self, products=products[0], square_products=products[1], slope_products=None), shares.max(axis=0)
        )

    def with_counts(self) -> "GapSums":
        """The sums, where a weight of w stands for w independent rows."""
        return replace(self, square_products=self.products)

    def __add__(self, other: "GapSums") -> "GapSums":
        return GapSums(
            tuple(mine + theirs for mine, theirs in zip(self.items, other.items, strict=True)),
            self.products + other.products,
            self.square_products + other.square_products,
            self.squares + other.squares,
            None if self.slope_products is None or other.slope_products is None else self.slope_products + other.slope_products,
        )


class CarriedSums(NamedTuple):
    """Products of gaps at other β than those at which rows were measured.

    ``shares`` has, for each observable, Σ w²·(step·slope)² relative to Σ w²·g² at the new β, or that with w if larger.
    """

    sums: GapSums
    shares: HostArray


# Where their sums are among those of a pair, and where the products of gaps are, and those of slopes with gaps and with slopes;
# first those with w, then those with w².
_PAIRED: dict[type, int] = {Confidence: 0, Energy: 1}
_PRODUCTS = np.array([[[12, 14], [14, 13]], [[15, 17], [17, 16]]])
_SLOPE_PRODUCTS = np.array([[[25, 28, 22, 24], [27, 26, 24, 23]], [[30, 33, 5, 29], [32, 31, 29, 11]]])


class _ProductPlaces(NamedTuple):
    """Where the products of some observables are among the sums of a pair."""

    products: HostArray
    slope_products: HostArray


@cache
def _product_places(items: tuple[int, ...]) -> _ProductPlaces:
    both, columns = (0, 1), (*items, *(2 + i for i in items))
    return _ProductPlaces(_PRODUCTS[np.ix_(both, items, items)], _SLOPE_PRODUCTS[np.ix_(both, items, columns)])


@dataclass(frozen=True)
class Measure(KernelPass[GapSums]):
    """The pass that gives the moments of several observables, each at some β of its own.

    One call of the kernel serves all of them. With ``exact`` it computes in float64, else in the precision of the logits.
    """

    wanted: tuple[tuple[Observable, tuple[float, ...]], ...]
    exact: bool = True

    @cached_property
    def _betas(self) -> tuple[float, ...]:
        return tuple(dict.fromkeys(beta for _, betas in self.wanted for beta in betas))

    def reads_unchecked(self, batch: Batch) -> bool:
        """Whether the kernel gives all that is wanted without a number per row."""
        if not (self._is_paired and all(0 < betas[0] < inf for _, betas in self.wanted)):
            return False
        return kernel_of(batch).fused is not None and takes_unchecked(batch)

    @cached_property
    def _is_paired(self) -> bool:
        return all(type(each) in _PAIRED and len(betas) == 1 for each, betas in self.wanted)

    def with_found(self, batch: Batch) -> tuple[GapSums, Findings]:
        """The moments of a batch, and what the kernel returned for them."""
        if self._is_paired:
            pair, returned = sum_pair(batch, *self.pair, exact=self.exact)
            return self.of_pair(pair), returned
        ready = [observable._on(batch) for observable, _ in self.wanted]
        powers = self._powers(batch) if any(not rows.uses_tables for rows in ready) else [None] * len(self._betas)
        distributions = [Gibbs(batch, beta, known) for beta, known in zip(self._betas, powers, strict=True)]
        observed = [rows.observed(distributions[0]) for rows in ready]
        sums = [np.empty((6, len(betas))) for _, betas in self.wanted]
        values: list[Any] = [None] * len(ready)
        slopes: list[Any] = [None] * len(ready)
        for beta, gibbs in zip(self._betas, distributions, strict=True):
            for i, ((_, betas), rows, at_labels) in enumerate(zip(self.wanted, ready, observed, strict=True)):
                if beta in betas:  # perhaps more than once
                    gap = rows.gap(gibbs, at_labels)
                    found = np.append(batch.totals(gap), batch.totals([gap.slope**2], squared=True))
                    sums[i][:, np.equal(betas, beta)] = found[:, None]
                    if beta == betas[0]:
                        values[i], slopes[i] = gap.value, gap.slope
        moments = tuple(
            Moments(observable, betas, batch.weight, batch.total(at_labels), *parts)
            for (observable, betas), at_labels, parts in zip(self.wanted, observed, sums, strict=True)
        )
        return GapSums(moments, *_products(batch, values, slopes)), distributions[0]

    @property
    def pair(self) -> tuple[float, float]:
        """The β of confidence and of energy in the commonest case: one of them or both, at one β each."""
        betas = {type(each): beta for each, (beta,) in self.wanted}
        first = self.wanted[0][1][0]
        return betas.get(Confidence, first), betas.get(Energy, first)

    def of_pair(self, sums: HostArray) -> GapSums:
        """The moments from the `pair_sums` at the β of the `pair`."""
        weight, squares, right, at_labels = sums[18:22].tolist()
        observed = {Confidence: right - weight, Energy: at_labels}
        places = tuple(_PAIRED[type(each)] for each, _ in self.wanted)
        where = _product_places(places)
        return GapSums(
            tuple(
                Moments(each, each_betas, weight, observed[type(each)], *sums[6 * i : 6 * i + 6, None])
                for i, (each, each_betas) in zip(places, self.wanted, strict=True)
            ),
            sums[where.products[0]],
            sums[where.products[1]],
            squares,
            sums[where.slope_products],
        )

    def _powers(self, batch: Batch) -> list[RowSums]:
        """The power sums at each β, in one call for those that are neither 0 nor infinite."""
        usual = [beta for beta in self._betas if 0 < beta < inf]
        ends = [beta for beta in self._betas if not 0 < beta < inf]
        found: dict[float, RowSums] = {}
        for betas, exact in ((usual, self.exact), (ends, True)):
            if betas:
                found |= dict.fromkeys(betas, row_sums(batch, betas, _ORDER, exact=exact))
        return [found[beta] for beta in self._betas]


def _products(batch: Batch, values: Sequence[Any], slopes: Sequence[Any]) -> tuple[HostArray, HostArray, float, HostArray]:
    """The products of gaps, with weights and with squared weights, the sum of squared weights, and the products of slopes."""
    xp, table, m = batch.xp, batch.xp.stack([*values, *slopes]), len(values)
    weighted = table * batch.weights
    squares = float(batch.totals([batch.weights])[0])
    with np.errstate(invalid="ignore"):  # an infinite gap, of a masked label, times a slope of zero; such sums are not used
        both = on_host(xp.stack([weighted @ table.T, weighted @ weighted.T]))
    return both[0, :m, :m], both[1, :m, :m], squares, both[:, m:, :]


def measure(batch: Batch, observable: Observable, betas: Sequence[float]) -> Moments:
    """The moments of one observable on one batch."""
    return Measure(((observable, tuple(betas)),))(batch).items[0]


def log_scale(batch: Batch) -> Mean:
    """The logarithm of how far the second largest logit lies below the largest: where β has to be found.

    A constant per row does not move it, and near ties and soft masks hardly move a mean of logarithms.
    """
    xp = batch.xp
    lead = xp.max(batch.double, axis=1) - xp.min(largest(batch.double, 2), axis=1)
    known = (lead > 0) & xp.isfinite(lead)
    logarithms = xp.where(known, xp.log(xp.where(known, lead, xp.ones_like(lead))), xp.zeros_like(lead))
    return Mean(batch.total(logarithms), batch.weight)
