"""Logistic regression of two classes on a few functions of a score: sums over rows, and coefficients with the lowest loss.

The calibrated log-odds are f(s) = Σθ_j·φ_j(s), where s are the log-odds of the scores. The loss is least where each φ_j has the
same mean under the model as at the labels, so that the search needs sums over rows only. Inside, each φ_j is shifted and
divided by its range, and s² becomes the square of the distance from the middle of the scores, so that the unit and the zero of
the scores do not matter to a polynomial of s.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, log

import numpy as np

from nishimori._fit.newton import Equations, sandwich, solve
from nishimori._rows.batch import Batch
from nishimori._rows.rows import Rows, Sum, combined_by
from nishimori._sums.class_claims import ClassWeights, sum_by_class
from nishimori._sums.spread import gap_products
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray
from nishimori.errors import NotConvergedError
from nishimori.maps.affine import refuse_masks
from nishimori.maps.log_odds import log_odds, log_sigmoids

_LOG_2 = log(2)

_TERMS: dict[str, Callable[[Array], Array]] = {
    "s": lambda s: s,
    "s²": lambda s: s**2,
    "ln p": lambda s: log_sigmoids(s)[0],
    "-ln(1-p)": lambda s: log_sigmoids(s)[1],
    "ln 2p": lambda s: log_sigmoids(s)[0] + _LOG_2,
    "-ln 2(1-p)": lambda s: log_sigmoids(s)[1] - _LOG_2,
}


@dataclass(frozen=True)
class Overview(Sum):
    """Facts about the data before the search; supports ``+``.

    Attributes
    ----------
    classes : ClassWeights
        The weights of the rows of both classes.
    least, largest : array of shape (2,)
        The least and the largest s of each class.
    lows, highs : array of shape (n_terms,)
        The range of each term.
    """

    classes: ClassWeights
    least: HostArray = field(metadata=combined_by(np.minimum))
    largest: HostArray = field(metadata=combined_by(np.maximum))
    lows: HostArray = field(metadata=combined_by(np.minimum))
    highs: HostArray = field(metadata=combined_by(np.maximum))


def overview(terms: tuple[str, ...], batch: Batch) -> Overview:
    """The pass that gives an `Overview`."""
    refuse_masks(batch.has_masks)
    s, labels = log_odds(batch.double), arrays.on_host(batch.labels)
    values = [_TERMS[name](s) for name in terms]
    lows, highs = (np.array([float(best(value)) for value in values]) for best in (batch.xp.min, batch.xp.max))
    of_class = [arrays.on_host(s)[labels == label] for label in (0, 1)]
    least = np.array([scores.min(initial=inf) for scores in of_class])
    largest = np.array([scores.max(initial=-inf) for scores in of_class])
    return Overview(sum_by_class(batch), least, largest, lows, highs)


@dataclass(frozen=True, eq=False)
class Regression:
    """The functions to combine, and the meaning of the labels.

    Attributes
    ----------
    terms : tuple of str
        The functions of s.
    shifts, widths : array of shape (n_terms,)
        What is subtracted from each, and what it is divided by, during the search.
    has_constant : bool
        Whether a constant is added, the last coefficient.
    smoothing : pair of float
        What is subtracted from the probability 1 of the true class, for rows of the first and of the second class.
    middle : float
        What is subtracted from s before it is squared: far from zero, s² would be nearly a linear function of s.
    has_offset : bool
        Whether s itself is added, with the coefficient 1.
    """

    terms: tuple[str, ...]
    shifts: HostArray
    widths: HostArray
    has_constant: bool = True
    smoothing: tuple[float, float] = (0.0, 0.0)
    middle: float = 0.0
    has_offset: bool = False

    @classmethod
    def from_overview(
        cls,
        terms: tuple[str, ...],
        seen: Overview,
        *,
        has_constant: bool,
        smoothing: tuple[float, float],
        has_offset: bool = False,
    ) -> "Regression":
        """The regression whose terms have the ranges that were seen."""
        if not has_constant:
            sizes = np.maximum(np.abs(seen.highs), np.abs(seen.lows))
            return cls(terms, np.zeros(len(terms)), sizes, has_constant, smoothing)
        shifts, sizes = (seen.highs + seen.lows) / 2, seen.highs - seen.lows
        if not {"s", "s²"} <= set(terms):
            return cls(terms, shifts, sizes, has_constant, smoothing, has_offset=has_offset)
        linear, square = terms.index("s"), terms.index("s²")
        sizes[square] = (sizes[linear] / 2) ** 2
        middle, shifts[square] = float(shifts[linear]), sizes[square] / 2
        return cls(terms, shifts, sizes, has_constant, smoothing, middle)

    def with_terms(self, chosen: tuple[int, ...]) -> "Regression":
        """The regression with some of its terms."""
        places = list(chosen)
        terms = tuple(self.terms[place] for place in places)
        return replace(self, terms=terms, shifts=self.shifts[places], widths=self.widths[places])

    @property
    def size(self) -> int:
        """The number of coefficients."""
        return len(self.terms) + self.has_constant

    @property
    def to_coefficients(self) -> HostArray:
        """The matrix that turns what the search finds into the coefficients of the functions themselves."""
        matrix = np.diag(np.append(1 / self.widths, 1.0))
        matrix[-1, :-1] = -self.shifts / self.widths
        if self.middle:  # (s − m)² = s² − 2m·s + m²
            linear, square = self.terms.index("s"), self.terms.index("s²")
            matrix[linear] -= 2 * self.middle * matrix[square]
            matrix[-1] += self.middle**2 * matrix[square]
        return matrix if self.has_constant else matrix[:-1, :-1]

    def columns(self, batch: Batch) -> Array:
        """The shifted and divided functions of each row, (n, size)."""
        s = log_odds(batch.double)
        parts = [
            (_TERMS[name](s - self.middle if name == "s²" else s) - shift) / width
            for name, shift, width in zip(self.terms, self.shifts.tolist(), self.widths.tolist(), strict=True)
        ]
        return batch.xp.stack([*parts, batch.xp.ones_like(s)] if self.has_constant else parts, axis=1)


@dataclass(frozen=True)
class LogisticSums(Sum):
    """Sums over rows of weights, loss, gradient and second derivatives; ``+`` adds other rows."""

    weight: float
    loss: float
    gradient: HostArray
    curvature: HostArray

    @property
    def equations(self) -> Equations:
        """The mean gaps. A unit is 1 because each column has the range 1, and only steps tell when the search has ended."""
        # With perfectly separated classes, gaps fall to zero while the parameters grow without end: gaps must not decide.
        ones = np.ones(len(self.gradient))
        return Equations(self.gradient / self.weight, self.curvature / self.weight, ones, 0 * ones)


def measure_loss(regression: Regression, x: HostArray, batch: Batch) -> LogisticSums:
    """The pass that sums the loss and its derivatives at one point ``x`` of the search."""
    xp, w = batch.xp, batch.weights
    columns, gaps, slopes, losses = _row_losses(regression, x, batch)
    curvature = columns.T @ (columns * (w * slopes)[:, None])
    gradient = (w * gaps) @ columns
    return LogisticSums(
        batch.weight, float(xp.sum(w * losses)), arrays.on_host(gradient).copy(), arrays.on_host(curvature).copy()
    )


def row_gradients(regression: Regression, x: HostArray, batch: Batch) -> HostArray:
    """The gradient of the loss of each row, (n, size)."""
    columns, gaps, _, _ = _row_losses(regression, x, batch)
    return arrays.on_host(columns * gaps[:, None])


def _row_losses(regression: Regression, x: HostArray, batch: Batch) -> tuple[Array, Array, Array, Array]:
    """The columns, and the loss of each row with its first and second derivative by the calibrated log-odds."""
    xp = batch.xp
    columns = regression.columns(batch)
    mapped = columns @ arrays.on_device_of(x, columns)
    if regression.has_offset:
        mapped = mapped + log_odds(batch.double)
    signs = xp.astype(2 * batch.labels - 1, mapped.dtype)
    before, after = regression.smoothing
    smoothing = before + (after - before) * (signs + 1) / 2
    margins = signs * mapped
    small = xp.exp(-xp.abs(margins))
    # The probability of the wrong class with all its digits: it tells how far separated classes are apart.
    wrong = xp.where(margins > 0, small, xp.ones_like(small)) / (1 + small)
    losses = xp.where(margins < 0, -margins, xp.zeros_like(margins)) + xp.log1p(small) + smoothing * margins
    return columns, -signs * (wrong - smoothing), small / (1 + small) ** 2, losses


@dataclass(frozen=True, eq=False)
class Coefficients:
    """The coefficients of least loss.

    Attributes
    ----------
    regression : Regression
        Of what they are the coefficients.
    x : array of shape (size,)
        Where the search ended, in its own units.
    curvature : array of shape (size, size)
        The second derivatives of the mean loss there.
    residual : float
        The largest mean gap that is left, in the units of the search.
    """

    regression: Regression
    x: HostArray
    curvature: HostArray
    residual: float

    @property
    def values(self) -> HostArray:
        """The coefficients of the functions themselves, with the constant last."""
        return self.regression.to_coefficients @ self.x

    @property
    def slopes(self) -> HostArray:
        """The coefficients without the constant."""
        return self.values[: len(self.regression.terms)]


class LogisticSearch:
    """Searches in one data set, with its overview.

    Attributes
    ----------
    n_passes : int
        How often the data were read.
    """

    def __init__(self, data: Rows, seen: Overview) -> None:
        self.data = data
        self.seen = seen
        self.n_passes = 0

    def sums(self, regression: Regression, x: HostArray) -> LogisticSums:
        """The sums at one point, from a pass."""
        self.n_passes += 1
        return self.data.gather(partial(measure_loss, regression, x))

    def least_loss(self, regression: Regression) -> Coefficients:
        """The coefficients of least loss; the search starts where f is constant.

        Raises
        ------
        NotConvergedError
            If no finite coefficients have the least loss, or if two terms have the same effect.
        """
        if not regression.size:  # f = 0
            return Coefficients(regression, np.zeros(0), np.zeros((0, 0)), 0.0)
        if not (regression.widths > np.finfo(float).tiny).all():
            raise NotConvergedError("The parameters are not determined: a function of the scores is constant.")
        start = np.zeros(regression.size)
        if regression.has_constant:
            negative, positive = self.seen.classes.weights
            start[-1] = log(positive / negative)
        solution = solve(lambda x: self.sums(regression, x).equations, start)
        return Coefficients(regression, solution.x, solution.equations.jacobian, solution.residual)

    def loss(self, coefficients: Coefficients) -> float:
        """The sum of the losses of all rows."""
        return self.sums(coefficients.regression, coefficients.x).loss

    def standard_errors(self, coefficients: Coefficients) -> HostArray:
        """The standard errors of the coefficients, from the sandwich of sums over independent rows or clusters."""
        if not coefficients.regression.size:
            return np.zeros(0)
        self.n_passes += 1
        gaps_of = partial(row_gradients, coefficients.regression, coefficients.x)
        products = gap_products(self.data, gaps_of) / self.seen.classes.weights.sum() ** 2
        turn = coefficients.regression.to_coefficients
        covariance = turn @ sandwich(coefficients.curvature, products) @ turn.T
        return np.sqrt(np.maximum(np.diag(covariance), 0))
