"""The sums from which temperatures and their errors follow: `Moments` of one observable, `GapSums` of several.

A `Moments` is what remains of the data once they have been read. Adding two gives the moments of the rows behind both, so
chunks, processes and days of traffic combine with ``+`` and nothing has to be kept. It knows its observable and its β, and
refuses to add to others. `GapSums` are the moments of several observables with the products of their gaps, from which error
bars follow.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from math import inf
from typing import Any

import numpy as np

from nishimori._kernels.kernel import block_sums, row_sums, takes_unchecked
from nishimori._kernels.sums import PowerSums
from nishimori._rows.batch import Batch
from nishimori._rows.rows import Sum, combined_by
from nishimori._sums.observables import Confidence, Energy, Observable
from nishimori._sums.passes import Findings, KernelPass, Mean, add_each
from nishimori._sums.predictions import Predictions
from nishimori._sums.spread import cluster_sums
from nishimori._support.arrays import HostArray, largest, on_host
from nishimori.errors import MergeError

# Four derivatives of the mean logit take the fifth power.
_ORDER = 5


# exp(βd) has an error of βd units in the last place, and rows with βd below -40 matter only to larger weights.
_NOISE = 64 * float(np.finfo(float).eps)

# Sums that are not far larger than the smallest numbers of float64 have lost their digits.
_LEAST = 1e-300


@dataclass(frozen=True)
class Moments:
    """Weighted sums of one observable: at the labels, and of the gaps at each of some β with four derivatives.

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
    jerk: HostArray
    snap: HostArray

    def __add__(self, other: "Moments") -> "Moments":
        if (self.observable, self.betas) != (other.observable, other.betas):
            raise MergeError(
                f"Moments add only if they are of the same observable at the same β, got {self.observable} at {self.betas} and "
                f"{other.observable} at {other.betas}. Measure both in the same way."
            )
        sums = (name for name in vars(self) if name not in ("observable", "betas"))
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in sums})

    def at(self, some: slice) -> "Moments":
        """The moments at some of the β."""
        arrays = (values[some] for values in (self.excess, self.size, self.slope, self.curvature, self.jerk, self.snap))
        return Moments(self.observable, self.betas[some], self.weight, self.observed, *arrays)

    @property
    def derivatives(self) -> tuple[HostArray, ...]:
        """The sums of the derivatives of the gaps in β, from the first to the fourth."""
        return self.slope, self.curvature, self.jerk, self.snap

    @property
    def gap(self) -> HostArray:
        """The model's mean minus the labels' mean, at each β: zero where they are consistent."""
        return self.excess / self.weight

    @property
    def expected(self) -> HostArray:
        """The sum under the model, at each β, counted from the value at the top as `observed` is."""
        return self.excess + self.observed

    @property
    def noise(self) -> HostArray:
        """The largest gap that rounding alone can cause."""
        return (_NOISE * self.size + _LEAST) / self.weight


@dataclass(frozen=True)
class GapSums(Sum):
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

    items: tuple[Moments, ...] = field(metadata=combined_by(add_each))
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

    def extrapolate_to(self, betas: Sequence[float]) -> tuple["GapSums", HostArray]:
        """The products of gaps at other β, one per observable: the gap of each row is continued by its slope.

        Beside them, for each observable, Σ w²·(step·slope)² relative to Σ w²·g² at the new β, or that with w if larger.
        """
        assert self.slope_products is not None, "these are where they are wanted"
        m = len(self.items)
        steps = np.array(betas) - [moments.betas[0] for moments in self.items]
        changes = steps[:, None] * self.slope_products
        with_gaps, with_slopes = changes[..., :m], changes[..., m:] * steps
        before = np.stack([self.products, self.square_products])
        products = before + with_gaps + with_gaps.transpose(0, 2, 1) + with_slopes
        # What the slopes add, relative to the result: far more than 1 where one row decides whose gap almost vanishes there.
        squares, added = (np.diagonal(table, axis1=1, axis2=2) for table in (products, with_slopes))
        shares = np.full(squares.shape, np.inf)
        np.divide(added, squares, out=shares, where=squares > 0)
        shares[added == 0] = 0.0
        carried = replace(self, products=products[0], square_products=products[1], slope_products=None)
        return carried, shares.max(axis=0)

    def with_counts(self) -> "GapSums":
        """The sums if a weight of w stands for w independent rows."""
        return replace(self, square_products=self.products)


# Where their sums are among those of a pair, and where the products of gaps are, and those of slopes with gaps and with slopes;
# first those with w, then those with w².
_PAIRED: dict[type, int] = {Confidence: 0, Energy: 1}
_MOMENTS = np.array([[0, 1, 2, 3, 4, 34], [6, 7, 8, 9, 10, 35]])
_PRODUCTS = np.array([[[12, 14], [14, 13]], [[15, 17], [17, 16]]])
_SLOPE_PRODUCTS = np.array([[[25, 28, 22, 24], [27, 26, 24, 23]], [[30, 33, 5, 29], [32, 31, 29, 11]]])


@cache
def _product_places(items: tuple[int, ...]) -> tuple[HostArray, HostArray]:
    """The places of products of gaps, and of products with slopes, among the sums of a pair."""
    both, columns = (0, 1), (*items, *(2 + i for i in items))
    return _PRODUCTS[np.ix_(both, items, items)], _SLOPE_PRODUCTS[np.ix_(both, items, columns)]


@dataclass(frozen=True)
class Measure(KernelPass[GapSums]):
    """The pass that gives the moments of several observables, each at its own β.

    One call of the kernel serves all of them. With ``exact`` it computes in float64, else in the precision of the logits.
    """

    wanted: tuple[tuple[Observable, tuple[float, ...]], ...]
    exact: bool = True

    @cached_property
    def _betas(self) -> tuple[float, ...]:
        return tuple(dict.fromkeys(beta for _, betas in self.wanted for beta in betas))

    def reads_unchecked(self, batch: Batch) -> bool:
        """Whether the kernel gives all requested sums without numbers per row."""
        if not (self._is_paired and all(0 < betas[0] < inf for _, betas in self.wanted)):
            return False
        return takes_unchecked(batch)

    @cached_property
    def _is_paired(self) -> bool:
        return all(type(observable) in _PAIRED and len(betas) == 1 for observable, betas in self.wanted)

    def with_findings(self, batch: Batch) -> tuple[GapSums, Findings]:
        """The moments of a batch, and what the kernel returned for them."""
        block = block_sums(batch, *self.pair, exact=self.exact) if self._is_paired else None
        if block is not None:
            return self.from_block(block.sums), block
        ready = [observable._on(batch) for observable, _ in self.wanted]
        powers = self._powers(batch) if any(not rows.uses_tables for rows in ready) else [None] * len(self._betas)
        distributions = [Predictions(batch, beta, sums) for beta, sums in zip(self._betas, powers, strict=True)]
        observed = [rows.observed(distributions[0]) for rows in ready]
        sums = [np.empty((6, len(betas))) for _, betas in self.wanted]
        values: list[Any] = [None] * len(ready)
        slopes: list[Any] = [None] * len(ready)
        for beta, predictions in zip(self._betas, distributions, strict=True):
            for i, ((_, betas), rows, at_labels) in enumerate(zip(self.wanted, ready, observed, strict=True)):
                if beta in betas:  # perhaps more than once
                    gap = rows.gap(predictions, at_labels)
                    sums[i][:, np.equal(betas, beta)] = batch.totals(gap)[:, None]
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
        betas = {type(observable): beta for observable, (beta,) in self.wanted}
        first = self.wanted[0][1][0]
        return betas.get(Confidence, first), betas.get(Energy, first)

    def from_block(self, sums: HostArray) -> GapSums:
        """The moments from what kernels return for a block of rows at the β of the `pair`, in the order of `N_SUMS`."""
        weight, squares, right, at_labels = sums[18:22].tolist()
        observed: dict[type, float] = {Confidence: right - weight, Energy: at_labels}
        places = tuple(_PAIRED[type(observable)] for observable, _ in self.wanted)
        products, slope_products = _product_places(places)
        return GapSums(
            tuple(
                Moments(observable, betas, weight, observed[type(observable)], *sums[_MOMENTS[i], None])
                for i, (observable, betas) in zip(places, self.wanted, strict=True)
            ),
            sums[products[0]],
            sums[products[1]],
            squares,
            sums[slope_products],
        )

    def _powers(self, batch: Batch) -> list[PowerSums]:
        """The power sums at each β, in one call for those that are neither 0 nor infinite."""
        usual = [beta for beta in self._betas if 0 < beta < inf]
        ends = [beta for beta in self._betas if not 0 < beta < inf]
        sums: dict[float, PowerSums] = {}
        for betas, exact in ((usual, self.exact), (ends, True)):
            if betas:
                sums |= dict.fromkeys(betas, row_sums(batch, betas, _ORDER, exact=exact))
        return [sums[beta] for beta in self._betas]


def _products(batch: Batch, values: Sequence[Any], slopes: Sequence[Any]) -> tuple[HostArray, HostArray, float, HostArray]:
    """The products of gaps, with weights and with squared weights, the sum of squared weights, and the products of slopes."""
    xp, table, m = batch.xp, batch.xp.stack([*values, *slopes]), len(values)
    weighted = table * batch.weights
    squares = float(batch.totals([batch.weights])[0])
    with np.errstate(invalid="ignore"):  # an infinite gap, of a masked label, times a slope of zero; such sums are not used
        both = on_host(xp.stack([weighted @ table.T, weighted @ weighted.T]))
    return both[0, :m, :m], both[1, :m, :m], squares, both[:, m:, :]


def cluster_gaps(wanted: Sequence[tuple[Observable, float]], batch: Batch) -> HostArray:
    """The pass that sums the gaps of several observables over each cluster, each at one β."""
    values = []
    for observable, beta in wanted:
        rows = observable._on(batch)
        predictions = Predictions(batch, beta, None if rows.uses_tables else row_sums(batch, (beta,), rows.powers))
        values.append(rows.value(predictions, rows.observed(predictions)))
    return cluster_sums(batch, values)


def log_scale(batch: Batch) -> Mean:
    """The logarithm of the gap between the two largest logits: the scale on which to search for β.

    A constant per row does not move it, and near ties and soft masks hardly move a mean of logarithms.
    """
    xp = batch.xp
    lead = xp.max(batch.double, axis=1) - xp.min(largest(batch.double, 2), axis=1)
    is_apart = (lead > 0) & xp.isfinite(lead)
    logarithms = xp.where(is_apart, xp.log(xp.where(is_apart, lead, xp.ones_like(lead))), xp.zeros_like(lead))
    return Mean(batch.total(logarithms), batch.weight)
