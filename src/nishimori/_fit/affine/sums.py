"""Sums over rows of the cross-entropy of an affine map, of its gradient and of its curvature.

Rows are x, divided by a temperature that is fixed beforehand: the logits minus their mean over classes, or the logarithms of
their softmax. A point is a scale and a bias: u = scale · x + bias, with p ∝ exp(u). The gradient of the cross-entropy is the
difference of means under the model and at the labels, its curvature the covariance of the same numbers under the model.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nishimori._fit.bias_sums import centre_logits
from nishimori._fit.conditions import refuse_masks
from nishimori._rows.batch import Batch
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray, row_max, row_sum
from nishimori.maps.softmax import log_softmax

# How many numbers a table of a pass may have besides the batch itself: 32 MiB of float64.
_LARGEST_TABLE = 2**22


@dataclass(frozen=True, eq=False)
class AffinePoint:
    """Where sums are made.

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
class LossSums:
    """Weighted sums at one point; those of other rows at the same point add.

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
    """

    loss: float
    by_scale: HostArray
    by_bias: HostArray
    frequencies: HostArray

    def __add__(self, other: "LossSums") -> "LossSums":
        return LossSums(*(mine + theirs for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass(frozen=True, eq=False)
class CurvedSums:
    """The loss, its gradient and its Hessian by all factors, row after row of the scale, and then by all biases."""

    first: LossSums
    hessian: HostArray

    def __add__(self, other: "CurvedSums") -> "CurvedSums":
        return CurvedSums(self.first + other.first, self.hessian + other.hessian)


@dataclass(frozen=True, eq=False)
class FactorSums:
    """What an approximation of the curvature of a large matrix needs: that of a Kronecker product.

    The curvature of a row is (diag p − ppᵀ) ⊗ ξξᵀ with ξ = (x, 1). Its sum is taken for the product of two sums, which is exact
    if the two factors are independent.

    Attributes
    ----------
    classes : array of shape (K, K)
        Σw(diag p − ppᵀ), the curvature by the biases.
    inputs : array of shape (K + 1, K + 1)
        Σwvξξᵀ, where v = 1 − Σp² says how much a row has to tell.
    told : float
        Σwv.
    diagonal : array of shape (2K, 2K)
        The exact curvature by the diagonal of the scale and by the biases.
    off_diagonal : float
        The sum of the exact second derivatives by each factor off the diagonal.
    """

    classes: HostArray
    inputs: HostArray
    told: float
    diagonal: HostArray
    off_diagonal: float

    def __add__(self, other: "FactorSums") -> "FactorSums":
        return FactorSums(*(mine + theirs for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True)))

    def __mul__(self, unit: float) -> "FactorSums":
        return FactorSums(*(each * unit for each in vars(self).values()))


@dataclass(frozen=True, eq=False)
class Loss:
    """The pass that sums the loss and its gradient."""

    point: AffinePoint

    def __call__(self, batch: Batch) -> LossSums:
        return AffineRows(batch, self.point).loss_sums()


@dataclass(frozen=True, eq=False)
class Curve:
    """The pass that sums the loss, its gradient and its whole curvature."""

    point: AffinePoint

    def __call__(self, batch: Batch) -> CurvedSums:
        rows = AffineRows(batch, self.point)
        hessian = rows.matrix_hessian() if self.point.is_matrix else rows.diagonal_hessian()
        return CurvedSums(rows.loss_sums(), hessian)


@dataclass(frozen=True, eq=False)
class Factor:
    """The pass that sums the two factors of an approximate curvature."""

    point: AffinePoint

    def __call__(self, batch: Batch) -> FactorSums:
        rows = AffineRows(batch, self.point)
        xp, host, x, p = batch.xp, arrays.on_host, rows.x, rows.p
        inputs = xp.concat([x, xp.ones_like(x[:, :1])], axis=1)
        told = (1 - xp.sum(p * p, axis=1)) * batch.weights
        heavy = inputs * xp.sqrt(told)[:, None]
        diagonal = rows.diagonal_hessian()
        n = self.point.bias.shape[0]
        varied = xp.sum((p * (1 - p) * batch.weights[:, None]) * (row_sum(x * x) - x * x))
        return FactorSums(
            classes=diagonal[n:, n:],
            inputs=host(heavy.T @ heavy),
            told=float(xp.sum(told)),
            diagonal=diagonal,
            off_diagonal=float(varied),
        )


@dataclass(frozen=True, eq=False)
class RowGradients:
    """The derivative of the loss of each row, (n, m), by all factors, one row of the scale after the other, and all biases."""

    point: AffinePoint

    def __call__(self, batch: Batch) -> HostArray:
        rows = AffineRows(batch, self.point)
        x, gaps = arrays.on_host(rows.x), arrays.on_host(rows.gaps)
        by_scale = gaps[:, :, None] * x[:, None, :] if self.point.is_matrix else gaps * x
        return np.concatenate([by_scale.reshape(len(x), -1), gaps], axis=1)


class AffineRows:
    """The rows of a batch at a point: tables of a block."""

    def __init__(self, batch: Batch, point: AffinePoint) -> None:
        refuse_masks(batch.has_masks)
        xp = batch.xp
        self.batch, self.point = batch, point
        self.x = (log_softmax if point.of_log else centre_logits)(batch.double) / point.temperature
        scale, bias = arrays.on_device_of(point.scale, self.x), arrays.on_device_of(point.bias, self.x)
        mapped = (self.x @ scale.T if point.is_matrix else self.x * scale) + bias
        self.u = mapped - row_max(mapped)
        powers = xp.exp(self.u)
        self.total = row_sum(powers)
        self.p = powers / self.total

    @property
    def gaps(self) -> Array:
        """P minus 1 at the label."""
        xp = self.batch.xp
        columns = arrays.on_device_of(np.arange(self.batch.n_classes), self.x)
        return self.p - xp.astype(self.batch.labels[:, None] == columns[None, :], self.p.dtype)

    def loss_sums(self) -> LossSums:
        """The loss and its gradient."""
        batch, host = self.batch, arrays.on_host
        losses = batch.xp.log(self.total[:, 0]) - batch.at(self.u, batch.labels)
        heavy = self.gaps * batch.weights[:, None]
        by_scale = heavy.T @ self.x if self.point.is_matrix else batch.xp.sum(heavy * self.x, axis=0)
        frequencies = np.bincount(host(batch.labels), host(batch.weights), batch.n_classes)
        return LossSums(batch.total(losses), host(by_scale), host(batch.xp.sum(heavy, axis=0)), frequencies)

    def diagonal_hessian(self) -> HostArray:
        """The second derivatives by the diagonal of the scale and by the biases, (2K, 2K)."""
        xp, x, heavy = self.batch.xp, self.x, self.p * self.batch.weights[:, None]
        pulled = xp.concat([self.p * x, self.p], axis=1)
        pulled = pulled * xp.sqrt(self.batch.weights)[:, None]  # a product with itself takes half the time
        both = arrays.on_host(pulled.T @ pulled)
        squares, means, total = (arrays.on_host(xp.sum(heavy * each, axis=0)) for each in (x * x, x, xp.ones_like(x)))
        return np.block([[np.diag(squares), np.diag(means)], [np.diag(means), np.diag(total)]]) - both

    def matrix_hessian(self) -> HostArray:
        """The second derivatives by all factors and by the biases, (K² + K, K² + K)."""
        n, width = self.batch.n_classes, self.batch.n_classes + 1
        total = np.zeros((n * width, n * width))
        own = np.zeros((n, width, width))
        for inputs, p in self._pieces(n * width):
            pulled = self.batch.xp.reshape(p[:, :, None] * inputs[:, None, :], (-1, n * width))
            total -= arrays.on_host(pulled.T @ pulled)
            own += arrays.on_host(pulled.T @ inputs).reshape(n, width, width)
        for i in range(n):
            total[i * width : (i + 1) * width, i * width : (i + 1) * width] += own[i]
        # The biases, which are the last input of each class, are to come last.
        order = np.arange(n * width).reshape(n, width)
        order = np.concatenate([order[:, :-1].ravel(), order[:, -1]])
        return total[np.ix_(order, order)]

    def _pieces(self, n_columns: int) -> Iterator[tuple[Array, Array]]:
        """(x, 1) times the root of the weight, and p: some rows at a time, so few that a table of n_columns stays small."""
        xp, step = self.batch.xp, max(1, _LARGEST_TABLE // n_columns)
        inputs = xp.concat([self.x, xp.ones_like(self.x[:, :1])], axis=1) * xp.sqrt(self.batch.weights)[:, None]
        for start in range(0, self.batch.n_rows, step):
            rows = slice(start, min(start + step, self.batch.n_rows))
            yield inputs[rows, :], self.p[rows, :]
