"""The search for one inverse temperature and one bias per class, u = βx + b, and for how much the biases are shrunk.

The conditions are that the mean probability of each class is its frequency, and that mean confidence equals accuracy ("ec") or
that the mean of x under the model is that of the true classes ("ts"). Adding a constant to all biases changes nothing, so their
sum is zero.

Biases are taken as random numbers of one common variance τ², so that each equation of a class gets a term b·φ/τ²: a bias that
the data do not determine stays near zero. φ says how much the gaps scatter, compared with rows of weight 1 under a model that
is right. With τ², the biases that the data ask for have a known covariance, and their quadratic form is a sum of squares whose
distribution is known. τ² is the least variance that this leaves possible at a confidence of 95 % (W. Viechtbauer, Stat. Med. 26
(2007) 37; here with the covariance of all biases), because biases that are not there cost more than is lost by shrinking others
a little too much. With φ, the unit of the weights does not matter.

In the sums over rows, x are the logits minus their mean over the classes of each row. The gaps are those of each class (its
mean probability minus its frequency), of the confidence (its mean minus the accuracy), and of x (its mean under the model minus
that of the true classes). Confidence and accuracy are those of the top class of u at some β and b, the anchor: while equations
are solved it must not change, because the accuracy jumps where it does.
"""

from dataclasses import dataclass, replace
from functools import partial
from math import exp, inf, log, sqrt
from typing import NamedTuple

import numpy as np

from nishimori._fit.affine.parameters import Parameters
from nishimori._fit.affine.penalised import AffineSearch
from nishimori._fit.newton import NOISE, Equations, Solution, sandwich, solve
from nishimori._fit.random_effects import variance_limit
from nishimori._rows.batch import Batch
from nishimori._rows.rows import Rows, Sum
from nishimori._sums.spread import gap_products
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray, row_max, row_sum
from nishimori.errors import NotConvergedError, setting

# exp(x) is a β, and beyond this its square overflows float64.
_FARTHEST = 340.0


class BiasPoint(NamedTuple):
    """An inverse temperature and a bias per class."""

    beta: float
    biases: tuple[float, ...]

    @classmethod
    def at(cls, x: HostArray) -> "BiasPoint":
        """The point with the unknowns of a search: log β and the biases."""
        return cls(exp(min(max(float(x[0]), -_FARTHEST), _FARTHEST)), tuple(x[1:].tolist()))

    @property
    def x(self) -> HostArray:
        """The unknowns of a search."""
        return np.array([log(self.beta), *self.biases])


@dataclass(frozen=True)
class BiasSums(Sum):
    """Weighted sums over rows at one point; ``+`` adds other rows.

    Attributes
    ----------
    weight, weight_squares : float
        Σw and Σw².
    gaps, sizes : array of shape (1 + K,)
        The gap of x and of each class, and what its rounding is relative to.
    jacobian : array of shape (1 + K, 1 + K)
        The derivative of each of these gaps by β and by each bias.
    confidence : float
        The gap of the confidence.
    confidence_slopes : array of shape (1 + K,)
        Its derivative by β and by each bias.
    observed : array of shape (K,)
        The weight of the rows of each class.
    own_confidence, own_squares : float
        The gap of the confidence with the top classes at the point itself, and the sum of its squares with weights.
    n_changed : int
        How many rows have another top class at the point than at the anchor.
    """

    weight: float
    weight_squares: float
    gaps: HostArray
    sizes: HostArray
    jacobian: HostArray
    confidence: float
    confidence_slopes: HostArray
    observed: HostArray
    own_confidence: float
    own_squares: float
    n_changed: int

    @property
    def by_bias(self) -> HostArray:
        """The derivative of the gap of each class by each bias; its trace is the variance of these gaps under the model."""
        return self.jacobian[1:, 1:]


def measure_biases(point: BiasPoint, anchor: BiasPoint | None, batch: Batch) -> BiasSums:
    """The pass that sums at one point; the top class of each row is taken at the anchor or, without one, at the point."""
    rows = BiasRows(batch, point, anchor)
    xp, w, host = batch.xp, batch.weights, arrays.on_host
    slope = row_sum(rows.px * rows.x)[:, 0] - rows.mean**2
    numbers = [rows.energy, rows.energy_size, slope, rows.gap, rows.pull, rows.own_gap, rows.own_gap**2, w]
    energy, size, energy_slope, gap, pull, own, own_squares, squares = host(xp.stack(numbers) @ w).tolist()
    heavy = rows.confidence * w
    half = rows.p * xp.sqrt(w)[:, None]  # the product of a table with itself takes half the time of one with another
    expected, observed = host(w @ rows.p), rows.by_class(w, batch.labels)
    jacobian = np.empty((1 + batch.n_classes, 1 + batch.n_classes))
    jacobian[0, 0] = energy_slope
    jacobian[0, 1:] = jacobian[1:, 0] = host(w @ rows.px - (w * rows.mean) @ rows.p)
    jacobian[1:, 1:] = np.diag(expected) - host(half.T @ half)
    return BiasSums(
        weight=batch.weight,
        weight_squares=squares,
        gaps=np.append(energy, expected - observed),
        sizes=np.append(size, expected + observed),
        jacobian=jacobian,
        confidence=gap,
        confidence_slopes=np.append(pull, rows.by_class(heavy, rows.top) - host(heavy @ rows.p)),
        observed=observed,
        own_confidence=own,
        own_squares=own_squares,
        n_changed=rows.n_changed,
    )


def row_gaps(point: BiasPoint, of_confidence: bool, batch: Batch) -> HostArray:
    """The gaps of each row at one point, (n, 1 + K): for the confidence or x, and for each class."""
    rows = BiasRows(batch, point, None)
    first = rows.gap if of_confidence else rows.energy
    gaps = np.column_stack([arrays.on_host(first), arrays.on_host(rows.p)])
    gaps[np.arange(batch.n_rows), 1 + arrays.on_host(batch.labels)] -= 1
    return gaps


class BiasRows:
    """The rows of a batch at a point: tables of a block, and numbers per row."""

    def __init__(self, batch: Batch, point: BiasPoint, anchor: BiasPoint | None) -> None:
        xp = batch.xp
        self.batch = batch
        self.x = batch.double - row_max(batch.double)  # exact, whatever constant a row has
        self.x = self.x - row_sum(self.x) / batch.n_classes
        mapped = self._logits_at(point)
        weights = xp.exp(mapped - row_max(mapped))
        self.p = weights / row_sum(weights)
        top = xp.argmax(mapped, axis=1)
        self.top = top if anchor is None else xp.argmax(self._logits_at(anchor), axis=1)
        self.n_changed = 0 if anchor is None else int(xp.sum(xp.astype(top != self.top, xp.int64)))
        true = batch.at(self.x, batch.labels)
        self.px = self.p * self.x
        self.mean = row_sum(self.px)[:, 0]
        self.energy = self.mean - true
        self.energy_size = xp.abs(self.mean) + xp.abs(true)
        self.confidence = batch.at(self.p, self.top)
        self.gap = self._gap(self.confidence, self.top)
        self.own_gap = self.gap if anchor is None else self._gap(batch.at(self.p, top), top)
        self.pull = self.confidence * (batch.at(self.x, self.top) - self.mean)

    def _gap(self, confidence: Array, top: Array) -> Array:
        """The confidence minus whether the top class is true."""
        return confidence - self.batch.xp.astype(top == self.batch.labels, confidence.dtype)

    def _logits_at(self, point: BiasPoint) -> Array:
        return self.x * point.beta + arrays.on_device_of(np.array(point.biases), self.x)

    def by_class(self, values: Array, columns: Array) -> HostArray:
        """The sum of one number per row over the rows of each class."""
        return np.bincount(arrays.on_host(columns), arrays.on_host(values), self.batch.n_classes)


# --- the search -----------------------------------------------------------------------------------------------------------

ROUNDS = 20
"""How often the top classes are updated before the search gives up."""

# The confidence level at which the biases are spread at least as much as is assumed. On 28 sets of logits with 500 to 5,000
# validation samples, this level gave nearly all of the gain, and hardly ever a loss. The mean of the distribution in place of
# this quantile (the estimate of Paule and Mandel) gave a loss more often.
_LEVEL = 0.95

# The spread is found again until it changes by less than this share; then its own uncertainty is a hundred times larger.
_SAME_SPREAD, _SPREAD_ROUNDS = 1e-3, 30

# While the spread changes, a search ends where the next step is as short as this.
_ROUGH = 1e-3

# A gap between confidence and accuracy that no solution avoids may be this share of its standard error.
_UNAVOIDABLE = 0.25

# Directions in which the gaps depend less on the biases, compared with the best one, tell nothing.
_FLAT = 1e-10


@dataclass(frozen=True)
class Biases:
    """The result of the search.

    Attributes
    ----------
    point : BiasPoint
        The inverse temperature and the biases.
    spread : float
        τ, infinite if the biases are not shrunk.
    residual : float
        The largest mean gap left; where biases are shrunk, that of the equations with the terms that shrink them.
    by_confidence : bool
        Whether mean confidence equals accuracy; else the condition is "ts".
    problem : str or None
        Why mean confidence could not be made equal to accuracy, if it was asked for; then the condition "ts" holds.
    sums : BiasSums
        The sums at the point.
    """

    point: BiasPoint
    spread: float
    residual: float
    by_confidence: bool
    problem: str | None
    sums: BiasSums


class BiasSearch:
    """Reads the data at requested points, and counts the passes."""

    def __init__(self, data: Rows) -> None:
        self.data = data
        self.n_passes = 0
        self.spread = inf
        self.dispersion = 1.0
        self._last: tuple[BiasPoint, BiasPoint | None, BiasSums] | None = None

    def sums(self, point: BiasPoint, anchor: BiasPoint | None = None) -> BiasSums:
        """The sums at a point; the sums of the last pass are reused."""
        if self._last is None or self._last[:2] != (point, anchor):
            self.n_passes += 1
            self._last = (point, anchor, self.data.gather(partial(measure_biases, point, anchor)))
        return self._last[2]

    def solve(self, start: BiasPoint, anchor: BiasPoint | None = None, *, rough: bool = False) -> Solution:
        """The point near ``start`` where the conditions hold: "ec" with an anchor, for its top classes, else "ts"."""

        def equations(x: HostArray) -> Equations:
            point = BiasPoint.at(x)
            return equations_of(self.sums(point, anchor), point, self.penalty, by_confidence=anchor is not None)

        return solve(equations, start.x, **({"enough": _ROUGH} if rough else {}))

    def least_loss(self, start: BiasPoint, names: HostArray) -> Biases:
        """The biases of least cross-entropy, without shrinking and at an inverse temperature of any sign.

        ``start`` has the temperature without biases, and ``names`` are the labels of the classes.

        Raises
        ------
        NotConvergedError
            If a class can be separated perfectly, so that there is no least one.
        """
        parameters = Parameters(self.data.n_classes, is_matrix=False, has_scale=False)
        sums, temperature = self.sums(start), 1 / start.beta
        unit = sums.weight / sums.weight_squares  # so that the scale of weights does not matter
        search = AffineSearch(self.data, parameters, temperature, unit, np.zeros(1), names, setting("shrink", True))
        minimum = search.minimum()
        self.n_passes += search.n_passes
        biases = minimum.theta[1:] - minimum.theta[1:].mean()
        point = BiasPoint(float(minimum.theta[0]) / temperature, tuple(biases.tolist()))
        return Biases(point, inf, minimum.residual, False, None, self.sums(point))

    @property
    def penalty(self) -> float:
        """φ/τ²."""
        return self.dispersion / self.spread**2

    def choose_spread(self, start: BiasPoint) -> BiasPoint:
        """Find the spread with the condition "ts", and a point close to the solution (``start`` if there is no spread)."""
        point, sums = start, self.sums(start)
        products = gap_products(self.data, partial(row_gaps, start, False))
        self.n_passes += 1
        self.dispersion = float(np.trace(products[1:, 1:]) / np.trace(sums.by_bias))
        for _ in range(_SPREAD_ROUNDS):
            before, self.spread = self.spread, common_spread(self.sums(point), np.array(point.biases), self.dispersion)
            if self.spread == 0:
                return start
            if abs(self.spread - before) <= _SAME_SPREAD * self.spread:
                break
            point = BiasPoint.at(self.solve(point, rough=True).x)
        return point

    def biases_of(self, solution: Solution, anchor: BiasPoint | None = None) -> Biases:
        """The biases of a solution; with an anchor of the same top classes, mean confidence equals accuracy there."""
        point = BiasPoint.at(solution.x)
        return Biases(point, self.spread, solution.residual, anchor is not None, None, self.sums(point, anchor))

    def by_confidence(self, start: Biases) -> Biases:
        """The biases for the condition "ec" if the top classes converge; else the "ts" biases ``start``, and why.

        An exact solution need not exist: if the accuracy jumps where mean confidence would reach it, top classes change back
        and forth between two solutions. The better of the two is then as good as the data allow, if what is left is far less
        than the standard error of the gap.
        """
        if start.point.beta <= 0:
            return replace(start, problem="the inverse temperature of least cross-entropy is not positive")
        anchor, tried = start.point, [start.point]
        best: Biases | None = None
        problem = f"the top classes of some samples kept changing for {ROUNDS} rounds"
        for _ in range(ROUNDS):
            try:
                solution = self.solve(anchor, anchor)
            except NotConvergedError:
                problem = "the search did not converge"
                break
            biases = self.biases_of(solution, anchor)
            if biases.sums.n_changed == 0:
                return biases
            left = abs(biases.sums.own_confidence / biases.sums.weight)
            if left <= _UNAVOIDABLE * _confidence_error(biases.sums, counts=self.data.counts) and (
                best is None or left < best.residual
            ):
                best = replace(biases, residual=left)
            if any(np.allclose(solution.x, earlier.x, rtol=0, atol=1e-9) for earlier in tried):
                problem = "the top classes of some samples change back and forth between two solutions"
                break
            anchor = biases.point
            tried.append(anchor)
        return best or replace(start, problem=problem)


def _confidence_error(sums: BiasSums, *, counts: bool) -> float:
    """The standard error of mean confidence minus accuracy, for independent rows."""
    unit = 1.0 if counts else sums.weight_squares / sums.weight
    return sqrt(unit * sums.own_squares) / sums.weight


def equations_of(sums: BiasSums, point: BiasPoint, penalty: float, *, by_confidence: bool) -> Equations:
    """The equations in log β and the biases; a last term fixes the sum of the biases at zero and changes no solution."""
    n_classes, biases = len(point.biases), np.array(point.biases)
    hold = float(np.trace(sums.by_bias)) / n_classes
    gaps, sizes, jacobian = sums.gaps.copy(), sums.sizes.copy(), sums.jacobian.copy()
    gaps[1:] += penalty * biases + hold * biases.mean()
    jacobian[1:, 1:] += penalty * np.eye(n_classes) + hold / n_classes
    information = np.diag(jacobian) * np.append(point.beta**2, np.ones(n_classes))
    if by_confidence:
        gaps[0], sizes[0], jacobian[0] = sums.confidence, sums.weight, sums.confidence_slopes
    jacobian[:, 0] *= point.beta
    units = 1 / np.sqrt(np.maximum(information / sums.weight, 1e-200))  # where nothing depends on a parameter any more
    return Equations(gaps / sums.weight, jacobian / sums.weight, units, NOISE * sizes / sums.weight)


def common_spread(sums: BiasSums, biases: HostArray, dispersion: float) -> float:
    """τ, from the biases of one more step without shrinkage and their covariance; 0 if noise explains them."""
    # What remains for the biases once β has followed them.
    by_beta = sums.jacobian[1:, 0]
    slopes = sums.by_bias - np.outer(by_beta, by_beta) / sums.jacobian[0, 0]
    scores = slopes @ biases - (sums.gaps[1:] - by_beta * (sums.gaps[0] / sums.jacobian[0, 0]))
    values, directions = np.linalg.eigh(slopes)
    telling = values > _FLAT * values.max()
    values, scores = values[telling], (directions.T @ scores)[telling]
    # Along these directions biases are independent estimates, scores / values, around zero.
    return sqrt(variance_limit(scores / values, dispersion / values, _LEVEL, centre=0.0))


def standard_errors(data: Rows, biases: Biases) -> tuple[float, HostArray]:
    """The standard errors of β and of the biases, which must not be shrunk, from one pass."""
    by_confidence = biases.by_confidence
    jacobian = equations_of(biases.sums, biases.point, 0.0, by_confidence=by_confidence).jacobian
    jacobian[:, 0] /= biases.point.beta
    products = gap_products(data, partial(row_gaps, biases.point, by_confidence)) / biases.sums.weight**2
    errors = np.sqrt(np.diag(sandwich(jacobian, products)))
    return float(errors[0]), errors[1:]
