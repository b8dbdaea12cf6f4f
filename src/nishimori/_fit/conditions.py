"""Several conditions at once: sums over rows of the gaps, of how the parameters move them, and of how the gaps scatter.

A calibrator with parameters θ maps logits to u(θ), with p(k) ∝ exp(u_k). Each condition says that an observable O has the same
mean under p as at the labels. Its gap is the difference of the two. The derivative of a gap by a parameter is the covariance of
O and ∂u/∂θ under p, and the sampling covariance of θ is the sandwich of the same sums: nothing is assumed about how labels come
about.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from nishimori._fit.newton import Equations
from nishimori._rows.batch import Batch
from nishimori._rows.rows import Rows
from nishimori._sums.spread import ClusterSums, cluster_sums, unit_weights
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError

# exp(u) has an error of u units in the last place, and classes with u below -40 hardly count.
NOISE = 64 * float(np.finfo(float).eps)


@dataclass(frozen=True)
class FieldSums:
    """Sums over rows with a field for each; those of other rows add field by field."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*(mine + theirs for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass(frozen=True)
class ConditionSums(FieldSums):
    """Weighted sums over rows at one point θ; those of other rows at the same point add.

    Attributes
    ----------
    weight : float
        Σw.
    gaps : array of shape (m,)
        Σw(⟨O⟩ − O at the label).
    sizes : array of shape (m,)
        What the rounding of the gaps is relative to.
    jacobian : array of shape (m, m)
        Σw Cov(O_a, ∂u/∂θ_b).
    information : array of shape (m,)
        Σw Var(∂u/∂θ_b), which is positive: its inverse root is the unit of a parameter.
    """

    weight: float
    gaps: HostArray
    sizes: HostArray
    jacobian: HostArray
    information: HostArray

    @property
    def equations(self) -> Equations:
        """The mean gaps, as the search for their zero needs them."""
        with np.errstate(divide="ignore"):
            units = 1 / np.sqrt(self.information / self.weight)
        units = np.where(np.isfinite(units), units, 1.0)  # a parameter without effect, which the search refuses
        return Equations(self.gaps / self.weight, self.jacobian / self.weight, units, NOISE * self.sizes / self.weight)


@dataclass(frozen=True)
class GapProducts:
    """The pass that sums the products of gaps over rows, or over clusters of rows; ``gaps_of`` gives them as (n, m).

    Of independent rows it gives Σu·g_a·g_b, where u = w² or, if weights are counts, u = w.
    """

    gaps_of: Callable[[Batch], HostArray]
    counts: bool
    clustered: bool

    def __call__(self, batch: Batch) -> HostArray | ClusterSums:
        gaps = self.gaps_of(batch)
        if self.clustered:
            return cluster_sums(batch, list(gaps.T))
        units = unit_weights(batch, counts=self.counts)
        products: HostArray = gaps.T @ (gaps * units[:, None])
        return products


def gap_products(data: Rows, gaps_of: Callable[[Batch], HostArray], *, counts: bool) -> HostArray:
    """The sums of products over what is independent in the data, rows or clusters, from one pass."""
    sums: Any = data.gather(GapProducts(gaps_of, counts, data.has_clusters))
    products: HostArray = sums.products if data.has_clusters else sums
    return products


def sandwich(jacobian: HostArray, products: HostArray) -> HostArray:
    """The sampling covariance of the parameters: J⁻¹ΣJ⁻ᵀ, both sums over the same rows."""
    half = np.linalg.solve(jacobian, products)
    covariance: HostArray = np.linalg.solve(jacobian, half.T)
    return (covariance + covariance.T) / 2


def on_host(batch: Batch) -> HostArray:
    """The logits of a batch in float64 as a NumPy array that cannot be written to, because the batch is shared."""
    host = arrays.on_host(batch.double).view()
    host.flags.writeable = False
    return host


def refuse_masks(are_there: bool) -> None:
    """Raise if some class of some row is masked."""
    if are_there:
        raise InputError(
            "X",
            "not have masked classes (-inf) where numbers are added to classes",
            remedy="Use a method with temperatures only, such as 'ec' or 'group'.",
        )
