"""Sums over rows of the cross-entropy of an affine map, of its gradient and of its curvature.

Rows are x, divided by a temperature that is fixed beforehand: the logits minus their mean over classes, or the logarithms of
their softmax. A point is a scale and a bias: u = scale · x + bias, with p ∝ exp(u). The gradient of the cross-entropy is the
difference of means under the model and at the labels, its curvature the covariance of the same numbers under the model.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from nishimori._rows.batch import Batch
from nishimori._rows.rows import Sum
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray, namespace, row_max, row_sum
from nishimori.maps.affine import refuse_masks

# The exponentials of numbers up to this size, and their sums, are normal numbers of float32.
_MODERATE = 60.0

# A label with half of the probability has a loss of log 2 = 0.693. Rounding in float32 must not hide on which side a row is.
_HALF = 0.69

# How many numbers the tables of a pass may have besides the batch itself: 2 MiB of float64, which stay in the cache of a CPU,
# and 32 MiB elsewhere.
_LARGEST_TABLE, _LARGEST_DEVICE_TABLE = 2**18, 2**22


@dataclass(frozen=True, eq=False)
class AffinePoint:
    """A point at which sums are computed.

    Attributes
    ----------
    temperature : float
        What x is divided by.
    scale : array of shape (K,) or (K, K)
        One factor per class, or a matrix.
    bias : array of shape (K,)
        What is added to each class.
    of_log : bool
        Whether x are the logarithms of the softmax of the logits; by default they are the logits minus their mean over classes.
    """

    temperature: float
    scale: HostArray
    bias: HostArray
    of_log: bool = False

    @property
    def is_matrix(self) -> bool:
        return self.scale.ndim == 2


@dataclass(frozen=True, eq=False)
class LossSums(Sum):
    """Weighted sums at one point; ``+`` adds other rows at the same point.

    Attributes
    ----------
    loss : float
        Σw·(−log p of the label).
    by_scale : array in the shape of the scale
        The derivative of the loss by each factor: Σw(p_i − y_i)x_j.
    by_bias : array of shape (K,)
        The derivative of the loss by each bias: Σw(p_i − y_i).
    frequencies : array of shape (K,)
        The weight of the labels of each class.
    n_doubtful : int
        The number of rows whose label does not have more than half of the probability. Without any, all rows are separated.
    """

    loss: float
    by_scale: HostArray
    by_bias: HostArray
    frequencies: HostArray
    n_doubtful: int


@dataclass(frozen=True, eq=False)
class CurvedSums(LossSums):
    """The loss, its gradient and its Hessian by all factors, row after row of the scale, and then by all biases."""

    hessian: HostArray

    @property
    def seconds(self) -> HostArray:
        """The second derivative by each factor and each bias."""
        return np.diag(self.hessian)


# Some kernels of OpenBLAS set the flag of an invalid operation for lanes that they do not use (numpy#24067), which NumPy would
# warn of. Logits and parameters are finite here.
def _unflagged() -> np.errstate:
    """Suppress warnings about invalid operations."""
    return np.errstate(invalid="ignore")


def measure_loss(point: AffinePoint, batch: Batch, *, single: bool = False) -> LossSums:
    """The pass that sums the loss and its gradient; with ``single`` from numbers in float32, on the way to a minimum."""
    with _unflagged():
        return AffineRows(batch, point, single=single).loss_sums()


def measure_curve(point: AffinePoint, batch: Batch, *, single: bool = False) -> CurvedSums:
    """The pass that sums the loss, its gradient and its whole curvature; with ``single`` from numbers in float32."""
    with _unflagged():
        rows = AffineRows(batch, point, single=single)
        hessian = rows.matrix_hessian() if point.is_matrix else rows.diagonal_hessian()
        return CurvedSums(**vars(rows.loss_sums()), hessian=hessian)


def measure_seconds(point: AffinePoint, batch: Batch, *, single: bool = False) -> HostArray:
    """The pass that sums the second derivative by β, each factor of a matrix and each bias; ``single`` as for the loss."""
    with _unflagged():
        rows = AffineRows(batch, point, single=single)
        xp, x, p, weights = batch.xp, rows.x, rows.p, rows.weights
        varied = p * (1 - p) * weights[:, None]
        spread = xp.sum(p * (x - row_sum(p * x)) ** 2, axis=1)
        sums = (xp.sum(weights * spread), varied.T @ (x * x), xp.sum(varied, axis=0))
        return np.concatenate([np.ravel(rows.sums(values)) for values in sums])


def row_gradients(point: AffinePoint, batch: Batch) -> HostArray:
    """The derivative of the loss of each row, (n, m), by all factors, one row of the scale after the other, and all biases."""
    rows = AffineRows(batch, point)
    x, gaps = arrays.on_host(rows.x), arrays.on_host(rows.gaps)
    by_scale = gaps[:, :, None] * x[:, None, :] if point.is_matrix else gaps * x
    return np.concatenate([by_scale.reshape(len(x), -1), gaps], axis=1)


def _row_sum(table: Array) -> Array:
    """The sum of each row, by BLAS, which is several times faster for few classes."""
    return (table @ namespace(table).ones_like(table[0, :]))[:, None]


class AffineRows:
    """The rows of a batch at a point: tables of a block, in float64 or, with ``single``, in float32."""

    def __init__(self, batch: Batch, point: AffinePoint, *, single: bool = False) -> None:
        refuse_masks(batch.has_masks)
        xp = batch.xp
        self.batch, self.point = batch, point
        logits = batch.logits if single else batch.double
        # Differences are exact, whatever constant a row has: they may be rounded, logits may not.
        x = logits - (row_max(logits) if point.of_log else logits[:, :1])
        x = xp.astype(x, xp.float32, copy=False) if single else x
        x -= xp.log(row_sum(xp.exp(x))) if point.of_log else _row_sum(x) / int(x.shape[1])
        x /= point.temperature
        scale, bias = (
            arrays.on_device_of(values.astype(np.float32) if single else values, x) for values in (point.scale, point.bias)
        )
        mapped = x @ scale.T if point.is_matrix else x * scale
        mapped += bias
        if not arrays.is_within(mapped, _MODERATE):
            mapped -= row_max(mapped)
        # Weights may be larger than any number of float32. Sums are multiplied by their unit afterwards.
        self.unit = float(xp.max(batch.weights)) if single else 1.0
        self.x, self.weights = x, xp.astype(batch.weights / self.unit, x.dtype) if single else batch.weights
        self.at_label = batch.at(mapped, batch.labels)
        self.p = xp.exp(mapped)
        self.total = _row_sum(self.p)
        self.p /= self.total

    def sums(self, table: Array) -> HostArray:
        """The sums of this block in float64 and in the original unit of weights, ready to be added."""
        host = arrays.on_host(table).astype(np.float64, copy=False)
        return host if self.unit == 1 else host * self.unit

    @property
    def gaps(self) -> Array:
        """P minus 1 at the label."""
        at_label = self.batch.at(self.p, self.batch.labels)[:, None]
        return arrays.with_entries(self.p + 0, self.batch.labels, at_label - 1)

    def loss_sums(self) -> LossSums:
        """The loss and its gradient."""
        batch, host = self.batch, arrays.on_host
        losses = batch.xp.astype(batch.xp.log(self.total[:, 0]) - self.at_label, batch.weights.dtype, copy=False)
        heavy = self.gaps
        heavy *= self.weights[:, None]
        by_scale = heavy.T @ self.x if self.point.is_matrix else batch.xp.sum(heavy * self.x, axis=0)
        frequencies = np.bincount(host(batch.labels), host(batch.weights), batch.n_classes)
        n_doubtful = int(batch.xp.sum(batch.xp.astype(losses >= _HALF, batch.xp.int32)))
        by_bias = self.sums(batch.xp.sum(heavy, axis=0))
        return LossSums(batch.total(losses), self.sums(by_scale), by_bias, frequencies, n_doubtful)

    def diagonal_hessian(self) -> HostArray:
        """The second derivatives by the diagonal of the scale and by the biases, (2K, 2K)."""
        xp, x, heavy = self.batch.xp, self.x, self.p * self.weights[:, None]
        pulled = xp.concat([self.p * x, self.p], axis=1)
        pulled *= xp.sqrt(self.weights)[:, None]  # a product with itself takes half the time
        hessian = -self.sums(pulled.T @ pulled)
        heavy_x = heavy * x
        squares, means, total = (self.sums(xp.sum(table, axis=0)) for table in (heavy_x * x, heavy_x, heavy))
        n, every = len(total), np.arange(len(total))
        for rows, columns, values in ((0, 0, squares), (0, n, means), (n, 0, means), (n, n, total)):
            hessian[rows + every, columns + every] += values
        return hessian

    def matrix_hessian(self) -> HostArray:
        """The second derivatives by all factors and by the biases, (K² + K, K² + K)."""
        # Up to its sign, an entry for two classes is Σw·p_a·p_b·ξ_i·ξ_j with ξ = (x, 1). It is the same for (b, a) and for
        # (j, i), so that the product of two tables, of pairs of classes and of pairs of inputs, has all that differ. Those of
        # a class with itself follow, because probabilities sum to 1.
        pairs, where = _pairs_of(self.batch.n_classes)
        products: HostArray = np.zeros((pairs.shape[1], (len(pairs) + 1) * (len(pairs) + 2) // 2))
        for classes, inputs in self._pairs(sum(products.shape)):
            products += self.sums(classes @ inputs.T)
        return np.concatenate([-products, pairs @ products]).ravel()[where]

    def _pairs(self, n_products: int) -> Iterator[tuple[Array, Array]]:
        """Weighted products of two probabilities, and products of two of (x, 1): a column per row, of some rows at a time."""
        xp, largest = self.batch.xp, _LARGEST_TABLE if isinstance(self.x, np.ndarray) else _LARGEST_DEVICE_TABLE
        step = max(1, largest // n_products)
        for start in range(0, self.batch.n_rows, step):
            rows = slice(start, min(start + step, self.batch.n_rows))
            p, x = arrays.transposed(self.p[rows, :]), arrays.transposed(self.x[rows, :])
            x = xp.concat([x, xp.ones_like(x[:1, :])])
            heavy = p * self.weights[rows]
            yield _products(xp, p, heavy, 1), _products(xp, x, x, 0)


@lru_cache(maxsize=2)
def _pairs_of(n_classes: int) -> tuple[HostArray, HostArray]:
    """The classes of each pair, (K, pairs), and the place of each second derivative among sums over pairs.

    The sums are those of each pair of classes, and then of each class with itself, by all pairs of inputs.
    """
    n, width = n_classes, n_classes + 1
    one, other = np.triu_indices(n, 1)
    number = np.arange(len(one))
    contains = np.zeros((n, len(one)))
    contains[one, number] = contains[other, number] = 1.0
    of_classes = np.diag(len(one) + np.arange(n))
    of_classes[one, other] = of_classes[other, one] = number
    first, second = np.triu_indices(width)
    of_inputs = np.zeros((width, width), dtype=np.intp)
    of_inputs[first, second] = of_inputs[second, first] = np.arange(len(first))
    # The bias is the last input of each class, and the biases of all classes are to come last.
    classes = np.concatenate([np.repeat(np.arange(n), n), np.arange(n)])
    inputs = np.concatenate([np.tile(np.arange(n), n), np.full(n, n)])
    where = of_classes[np.ix_(classes, classes)] * len(first) + of_inputs[np.ix_(inputs, inputs)]
    return contains, where.astype(np.int32)


def _products(xp: Any, table: Array, other: Array, first: int) -> Array:
    """Each row of ``other`` times all rows of ``table`` from ``first`` rows after it, one below the other."""
    n = int(table.shape[0])
    return xp.concat([table[one + first :, :] * other[one : one + 1, :] for one in range(n - first)])
