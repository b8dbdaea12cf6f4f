"""The weights of a mixture of distributions that fits the labels best, and their standard errors, from sums over rows.

Component k of the mixture gives the label of a row the probability q_k, and the mixture gives it s = Σ_k w_k q_k. The
cross-entropy −Σ log s is convex in the weights. It is least where the mean of q_k/s over all rows is 1 for each component of
positive weight and at most 1 for the others. In other words: the mean share w_k q_k/s that each component has in the labels is
its weight. However far the weights are from there, the mean cross-entropy exceeds its minimum by at most the largest mean of
q_k/s minus 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf

import numpy as np

from nishimori._fit.newton import sandwich
from nishimori._rows.batch import Batch
from nishimori._rows.rows import Rows, Sum
from nishimori._sums.spread import gap_products
from nishimori._support import arrays
from nishimori._support.arrays import HostArray, row_max, row_sum
from nishimori.errors import NotConvergedError
from nishimori.maps.map import softmax_of_drops
from nishimori.maps.mixture import log_components

N_COMPONENTS = 3
"""The softmax at the temperature, the softmax of the logits as they are, and the uniform distribution."""

# The mean cross-entropy then exceeds its minimum by less than this.
_ENOUGH = 1e-10

# What rounding may leave of the conditions.
_ROUNDING = 1e-8

# Newton's method doubles the digits once the minimum is near.
_MOST_STEPS = 60
_SHORTEST = 2.0**-40

# Where a weight became zero although some labels then have almost no probability, Newton's method would need many steps to get
# away from zero. The weight is divided by ten instead.
_MISSED, _ALMOST = 10.0, 0.9

# How much a step of a weight counts, beside the curvature, where the loss does not change.
_NEAR = 1e-12


@dataclass(frozen=True, eq=False)
class WeightSums(Sum):
    """Weighted sums over rows at some weights of the components; ``+`` adds other rows at the same weights.

    Attributes
    ----------
    weight : float
        Σω, where ω are the weights of the rows.
    loss : float
        −Σω log s.
    ratios : array of shape (3,)
        Σω q_k/s.
    products : array of shape (3, 3)
        Σω q_k q_l/s², the curvature of the loss.
    """

    weight: float
    loss: float
    ratios: HostArray
    products: HostArray


def measure_weights(temperature: float, weights: HostArray, batch: Batch) -> WeightSums:
    """The pass that sums the loss of a mixture with its derivatives by the weights of the components."""
    rows = MixtureRows(batch, temperature)
    heavy = arrays.on_host(batch.weights)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # an infinite loss, which the search avoids
        mixed = rows.relative @ weights
        ratios = rows.relative / mixed[:, None]
        loss = -heavy @ (np.log(mixed) + rows.largest)
        return WeightSums(float(heavy.sum()), float(loss), heavy @ ratios, ratios.T @ (ratios * heavy[:, None]))


class MixtureRows:
    """The components' probabilities of a batch's labels: ``relative`` (n, 3), divided by exp of ``largest`` (n,)."""

    def __init__(self, batch: Batch, temperature: float) -> None:
        drops = batch.double - row_max(batch.double)
        self.batch, self.temperature, self.drops = batch, temperature, drops
        at_label = [batch.at(logs, batch.labels) for logs in log_components(drops, temperature)]
        table = arrays.on_host(batch.xp.stack(at_label, axis=1))
        self.largest: HostArray = table.max(axis=1)  # as probabilities they might all be too small for float64
        self.relative: HostArray = np.exp(table - self.largest[:, None])

    def energies(self) -> tuple[HostArray, HostArray]:
        """The mean logit under the softmax at the temperature minus that of the label, and its variance, (n,) each."""
        xp, drops = self.batch.xp, self.drops
        p = softmax_of_drops(drops / self.temperature)
        finite = xp.where(drops > -inf, drops, xp.zeros_like(drops))  # masked classes have probability 0
        mean = row_sum(p * finite)
        variance = xp.sum(p * (finite - mean) ** 2, axis=1)
        return arrays.on_host(mean[:, 0] - self.batch.at(drops, self.batch.labels)), arrays.on_host(variance)


@dataclass(frozen=True)
class BestWeights:
    """The weights of least cross-entropy.

    Attributes
    ----------
    weights : array of shape (3,)
        Of the components; zero where a component does not help.
    residual : float
        What is left of the conditions: by how much a mean of q_k/s differs from 1, or exceeds it where the weight is zero.
    n_passes : int
        How often the data were read.
    """

    weights: HostArray
    residual: float
    n_passes: int


def best_weights(data: Rows, temperature: float) -> BestWeights:
    """The minimum of the loss over all weights that are not negative and sum to 1.

    Each step goes to the minimum of a quadratic model of the loss over the same weights, or part of the way if the loss would
    not fall enough.
    """
    n_passes = 0

    def read(weights: HostArray) -> WeightSums:
        nonlocal n_passes
        n_passes += 1
        return data.gather(partial(measure_weights, temperature, weights))

    weights = np.full(N_COMPONENTS, 1 / N_COMPONENTS)
    sums = read(weights)
    for _ in range(_MOST_STEPS):
        residual = _residual(weights, sums)
        if residual <= _ENOUGH:
            break
        there = _lower(weights, sums, read)
        if there is None:
            break
        weights, sums = there
    if residual > _ROUNDING:
        raise NotConvergedError(
            f"The search for the weights of the mixture did not converge in {n_passes} passes: the conditions are off by "
            f"{residual:.3g}. Use more data, or one temperature, as with 'ec' or 'ts'."
        )
    return BestWeights(weights, residual, n_passes)


def _residual(weights: HostArray, sums: WeightSums) -> float:
    """How much the conditions of a minimum are violated."""
    excess = sums.ratios / sums.weight - 1
    return float(np.where(weights > 0, np.abs(excess), np.maximum(excess, 0)).max())


def _lower(
    weights: HostArray, sums: WeightSums, read: Callable[[HostArray], WeightSums]
) -> tuple[HostArray, WeightSums] | None:
    """Weights with a lower loss and the sums there; None if rounding hides any further decrease."""
    goal = _model_minimum(weights, sums)
    slope = -(sums.ratios - sums.weight) @ (goal - weights)  # changes of the weights sum to zero; so digits are kept
    share = 1.0
    while share > _SHORTEST:
        there = goal if share == 1 else weights + share * (goal - weights)  # the zeros of the goal are exact
        read_there = read(there)
        missed = (read_there.ratios[there == 0] > _MISSED * read_there.weight).any()
        if read_there.loss <= sums.loss + 1e-4 * share * slope and not missed:
            return there, read_there
        if abs(slope) < 1e-12 * abs(sums.loss):  # the loss is as low as rounding can show, but the conditions can say more
            return (there, read_there) if _residual(there, read_there) < _residual(weights, sums) else None
        share = _ALMOST if share == 1 else share / 2
    return None


def _model_minimum(weights: HostArray, sums: WeightSums) -> HostArray:
    """The weights that are not negative and sum to 1 where a quadratic model of the loss is least.

    Σw is added to the mean loss, whose minimum over all weights that are not negative then has the sum 1 by itself. So it takes
    non-negative least squares (Y. Kim et al., J. Comput. Graph. Stat. 29 (2020) 261).
    """
    from scipy.optimize import nnls  # noqa: PLC0415 - slow to import

    curvature = sums.products / sums.weight
    # The nearest of all minima if there are many: at T = 1 the first two components are the same.
    curvature += _NEAR * np.diag(np.diag(curvature))
    factor = np.linalg.cholesky(curvature)
    downhill = sums.ratios / sums.weight - 1
    best: HostArray = nnls(factor.T, np.linalg.solve(factor, curvature @ weights + downhill))[0]
    best /= best.sum()
    return best


# With a larger condition number of the derivatives, rounding decides about the errors.
_LARGEST_CONDITION = 1e12


# The conditions of each row have the unknowns β = 1/T, w₁ and w₂; w₃ is 1 minus both. With energy gap e = ⟨z⟩ − z at the label
# and t_a = (q_a − q₃)/s they are e, −t₁ and −t₂.


def row_conditions(temperature: float, weights: HostArray, batch: Batch) -> HostArray:
    """The conditions of each row, (n, 3)."""
    rows = MixtureRows(batch, temperature)
    energies, _ = rows.energies()
    return np.column_stack([energies, -_tilts(rows, weights)[0]])


def condition_slopes(temperature: float, weights: HostArray, batch: Batch) -> HostArray:
    """The pass that sums the derivative of each condition by each unknown."""
    rows = MixtureRows(batch, temperature)
    heavy = arrays.on_host(batch.weights)
    energies, variances = rows.energies()
    tilts, first = _tilts(rows, weights)
    moved = -energies * first  # the derivative of q₁ by β, divided by s
    by_beta = tilts * (weights[0] * moved)[:, None]
    by_beta[:, 0] -= moved
    jacobian: HostArray = np.zeros((3, 3))
    jacobian[0, 0] = heavy @ variances
    jacobian[1:, 0] = heavy @ by_beta
    jacobian[1:, 1:] = tilts.T @ (tilts * heavy[:, None])
    return jacobian


def _tilts(rows: MixtureRows, weights: HostArray) -> tuple[HostArray, HostArray]:
    """t_a for both a, (n, 2), and q₁/s, (n,)."""
    mixed = rows.relative @ weights
    return (rows.relative[:, :2] - rows.relative[:, 2:]) / mixed[:, None], rows.relative[:, 0] / mixed


def standard_errors(data: Rows, temperature: float, weights: HostArray) -> HostArray | None:
    """The standard errors of T and of the three weights; None if the conditions do not determine them. Reads twice."""
    products = gap_products(data, partial(row_conditions, temperature, weights))
    jacobian = data.gather(partial(condition_slopes, temperature, weights))
    scale = 1 / np.sqrt(np.diag(jacobian))
    if not np.isfinite(scale).all() or np.linalg.cond(jacobian * scale[:, None] * scale) > _LARGEST_CONDITION:
        return None
    covariance = sandwich(jacobian, products)
    # T = 1/β, and w₃ = 1 − w₁ − w₂.
    change = np.array([[temperature**2, 0, 0], [0, 1, 0], [0, 0, 1], [0, -1, -1]])
    return np.sqrt(np.maximum(np.diag(change @ covariance @ change.T), 0))
