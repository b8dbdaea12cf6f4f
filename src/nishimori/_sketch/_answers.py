"""What the sums at the nodes say about the temperatures between them: where a gap is zero, and what the metrics are."""

from collections.abc import Sequence
from math import exp, inf, log
from typing import NamedTuple

import numpy as np

from nishimori._array import HostArray
from nishimori._moments import Moments
from nishimori._reliability import Bins, uniform_edges
from nishimori._roots import Point, Root
from nishimori._sketch._contents import N_BINS, Contents
from nishimori._sketch._grid import STEP, Grid, Polynomial
from nishimori.errors import InputError, NishimoriError, NotConvergedError

# Nodes that a polynomial goes through, and those that a coarser one does, whose difference tells the error.
_NODES, _FEWER = 6, 4

# Temperatures closer to a node than this part of the distance of two nodes are that node: rounding moves them as much.
_AT_A_NODE = 1e-12

# The relative precision that is promised of a temperature.
_PROMISED = 1e-6


class Scores(NamedTuple):
    """Means at one temperature, and sums per bin of confidence."""

    confidence: float
    brier: float
    nll: float
    bins: Bins


def root_of(inner: Moments, grid: Grid) -> Root | NishimoriError:
    """The log β at which a gap that is known at all nodes is zero, if it is known to be zero somewhere."""
    below = np.flatnonzero(inner.gap < 0)
    if not len(below):
        return _out_of_range("above", grid.temperatures[1], (grid.temperatures[0], 10 * grid.temperatures[1]))
    left = int(below[-1])
    if left == len(grid.betas) - 1:
        return _out_of_range("below", grid.temperatures[0], (grid.temperatures[0] / 10, grid.temperatures[1]))
    betas = np.array(inner.betas)
    slope, curvature = (betas**k * sums / inner.weight for k, sums in ((1, inner.slope), (2, inner.curvature)))
    jets = np.stack([inner.gap, slope * STEP, (slope + curvature) * STEP**2], axis=1)
    curve, coarser = (Polynomial.through(near, jets[near]) for near in (grid.nearest(left, n) for n in (_NODES, _FEWER)))
    place = _zero(curve, left)
    value, steepness = curve.with_slope(place)
    noise = float(inner.noise[left : left + 2].max())
    error = (abs(coarser(place)) + 2 * noise) / steepness * STEP if steepness > 0 else inf
    if error > _PROMISED:
        return NotConvergedError(
            f"No temperature can be determined from the sketch: around T = {exp(-grid.log_beta(place)):.4g} the mean of "
            f"{type(inner.observable).__name__} may be off by so much between the nodes that T changes by {error:.1g} of its "
            "value. Fit to logits and labels."
        )
    return Root(grid.log_beta(place), Point(value, steepness / STEP, 0.0, noise), 1, value, is_measured=False)


def _out_of_range(where: str, end: float, wider: tuple[float, float]) -> InputError:
    return InputError(
        f"The temperature must lie in the range of the sketch, got one {where} {end:.4g}. Make the sketch with a wider range, "
        f"such as `temperatures=({wider[0]:.2g}, {wider[1]:.2g})`."
    )


def _zero(curve: Polynomial, left: int) -> float:
    """The place of the zero between two nodes, by bisection."""
    low, high = float(left), left + 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if curve(middle) < 0 else (low, middle)
    return (low + high) / 2


def scores_at(temperature: float, contents: Contents, grid: Grid) -> Scores:
    """The metrics at a temperature of the range."""
    if not grid.holds(temperature):
        low, high = grid.temperatures
        raise InputError(
            f"`temperature` must lie in the range of the sketch, from {low:.4g} to {high:.4g}, got {temperature!r}. "
            "Make the sketch with a wider range: pass `temperatures=(low, high)`."
        )
    place = min(max(grid.place(-log(temperature)), 0.0), float(len(grid.betas) - 1))
    if abs(place - round(place)) < _AT_A_NODE:
        place = round(place)
    near = grid.nearest(place, _NODES)
    scale = np.array([np.ones(len(grid.betas)), np.array(grid.betas) * STEP]) / contents.weights[0]
    confidence, brier, nll = (_between((each * scale).T[near], near, place) for each in contents.curves)
    left = min(int(place), len(grid.betas) - 2)
    share = place - left
    weight, claimed, correct, squares, _ = (1 - share) * contents.bins[:, left] + share * contents.bins[:, left + 1]
    rows = (each[None, :] for each in (weight, claimed, correct, squares))
    return Scores(confidence, brier, nll, Bins(uniform_edges(N_BINS), *rows))


def _between(jets: HostArray, near: Sequence[int], place: float) -> float:
    """The polynomial through some means, infinite if they are."""
    return Polynomial.through(near, jets)(place) if np.isfinite(jets).all() else inf
