"""Interpolation between the nodes: zeros of gaps, their spread there, and metrics."""

from collections.abc import Sequence
from math import exp, floor, inf, log, nan, sqrt
from typing import NamedTuple

import numpy as np

from nishimori._fit.roots import Point, Root
from nishimori._sketch.contents import N_BINS, OFFSETS, Contents, different_pairs, pairs
from nishimori._sketch.grid import Grid, Polynomial
from nishimori._sketch.sketch import Sketch, names_of
from nishimori._sums.moments import GapSums, Moments
from nishimori._sums.observables import BUILT_IN, Observable
from nishimori._sums.reliability import Bins, uniform_edges
from nishimori._support.arrays import HostArray
from nishimori.errors import InputError, NishimoriError, NotConvergedError, setting

# If polynomials of two orders differ by a larger part of a sum of squares, there is no standard error. The better one is then
# usually right to a tenth of that.
_CERTAIN = 0.2

# Nodes that a polynomial goes through, and those of a coarser one, whose difference tells the error. Products of gaps have
# no derivatives, so that it takes more nodes.
_NODES, _FEWER, _OF_PRODUCTS = 6, 4, 12

# Moments are kept at both ends, too.
_NODES_ONLY = slice(1, -1)

# Temperatures closer to a node than this part of the distance of two nodes are that node: rounding moves them as much.
_AT_A_NODE = 1e-12

# A temperature that differs by no more than this from one of the grid is that one, up to rounding.
_SAME = 1e-9

# If (Σw)²/(nΣw²) differs by no more than this from 1, all weights are equal up to rounding.
_EQUAL_WEIGHTS = 1e-9

# The relative precision that is promised of a temperature.
_PROMISED = 1e-6


class NodeScores(NamedTuple):
    """Means at one temperature, and sums per bin of confidence.

    ``misses`` are Σw²(confidence - correct)² per bin, and ``squares`` is Σw²; over clusters, where there are any.
    """

    confidence: float
    brier: float
    nll: float
    bins: Bins
    misses: HostArray
    squares: float
    has_clusters: bool


def moments_of(data: Sketch, observable: Observable) -> Moments:
    """The sums of one observable at both ends and at each node."""
    if observable not in data.observables:
        held, (name,) = names_of(data.observables), names_of([observable])
        wanted = ", ".join(f'"{label}"' if label in BUILT_IN else label for label in (*held, name))
        raise InputError(
            "The sketch",
            f"hold the observable {name} to fit it",
            got=f"one that holds {', '.join(held)}",
            remedy=f"Make the sketch with `observables=({wanted})`.",
        )
    i, contents, betas = data.observables.index(observable), data.contents, (0.0, *data.grid.betas, inf)
    unknown = np.zeros(len(betas))  # the third and the fourth derivative, which no fit from a sketch needs
    sums = (*contents.moments[i], unknown, unknown)
    return Moments(observable, betas, float(contents.weights[0]), float(contents.observed[i]), *sums)


def root_of(data: Sketch, observable: Observable) -> Root | NishimoriError:
    """The log β at which a gap with values at all nodes is zero, if they show that there is a zero."""
    grid, inner = data.grid, moments_of(data, observable).at(_NODES_ONLY)
    below = np.flatnonzero(inner.gap < 0)
    if not len(below):
        return _out_of_range("above", grid.temperatures[1], (grid.temperatures[0], 10 * grid.temperatures[1]))
    left = int(below[-1])
    if left == len(grid.betas) - 1:
        return _out_of_range("below", grid.temperatures[0], (grid.temperatures[0] / 10, grid.temperatures[1]))
    curve, coarser = (_curve(inner, grid, left, n) for n in (_NODES, _FEWER))
    place, noise = _zero(curve, left), float(inner.noise[left : left + 2].max())
    root = _root(curve, place, grid, noise)
    error = (abs(coarser(place)) + 2 * noise) / root.point.slope if root.point.slope > 0 else inf
    if error > _PROMISED:
        return NotConvergedError(
            f"No temperature can be determined from the sketch: around T = {exp(-root.x):.4g} the mean of "
            f"{type(observable).__name__} may be off by so much between the nodes that T changes by {error:.1g} of its "
            f"value. Make the sketch with `nodes_per_octave={2 * grid.per_octave}`, or fit to logits and labels."
        )
    return root


def _root(curve: Polynomial, place: float, grid: Grid, noise: float = 0.0) -> Root:
    """The gap and its slope at a position between the nodes, treated like a zero."""
    value, steepness = curve.with_slope(place)
    return Root(grid.log_beta(place), Point(value, steepness / grid.step, 0.0, noise), 1, value, is_measured=False)


def gaps_of(data: Sketch, roots: Sequence[tuple[Observable, Root]]) -> GapSums:
    """The sums for standard errors: some observables, each where it is matched.

    If weights are counts, a weight of w stands for w independent rows.
    """
    contents, grid = data.contents, data.grid
    places = [grid.place(root.x) for _, root in roots]
    which = [data.observables.index(observable) for observable, _ in roots]
    plain, squared = (
        NodeProducts(contents.products[:, i, _NODES_ONLY], contents.crossed[:, i], len(data.observables)).at(places, which)
        for i in (0, 1)
    )
    items = tuple(_moments_at(contents, observable, i, root) for i, (observable, root) in zip(which, roots, strict=True))
    return GapSums(items, plain, plain if data.counts else squared, float(contents.weights[1]))


def gaps_at(data: Sketch, observables: Sequence[Observable], log_beta: float) -> GapSums:
    """The sums for standard errors of some observables, all at one temperature of the range."""
    grid, place = data.grid, data.grid.place(log_beta)
    curves = [_curve(moments_of(data, observable).at(_NODES_ONLY), grid, place, _NODES) for observable in observables]
    roots = [(observable, _root(curve, place, grid)) for observable, curve in zip(observables, curves, strict=True)]
    return gaps_of(data, roots)


def _moments_at(contents: Contents, observable: Observable, which: int, root: Root) -> Moments:
    """The sums of one observable at one temperature; sums that no error needs are zero."""
    beta, unknown, weight, observed = exp(root.x), np.zeros(1), float(contents.weights[0]), float(contents.observed[which])
    excess, slope = np.array([root.residual * weight]), np.array([root.point.slope * weight / beta])
    return Moments(observable, (beta,), weight, observed, excess, unknown, slope, unknown, unknown, unknown)


def _curve(inner: Moments, grid: Grid, place: float, number: int) -> Polynomial:
    """The mean gap through some nodes near a place, with its first two derivatives there."""
    near, step, betas = grid.nearest(place, number), grid.step, np.array(inner.betas)
    slope, curvature = (betas**k * sums / inner.weight for k, sums in ((1, inner.slope), (2, inner.curvature)))
    jets = np.stack([inner.gap, slope * step, (slope + curvature) * step**2], axis=1)
    return Polynomial.through(near, jets[near])


def _out_of_range(where: str, end: float, wider: tuple[float, float]) -> InputError:
    rounded = tuple(float(f"{limit:.2g}") for limit in wider)
    return InputError(
        "The temperature",
        "lie in the range of the sketch",
        got=f"one {where} {end:.4g}",
        remedy=f"Make the sketch with a wider range, such as {setting('temperatures', rounded)}.",
    )


def _zero(curve: Polynomial, left: int) -> float:
    """The place of the zero between two nodes, by bisection."""
    low, high = float(left), left + 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if curve(middle) < 0 else (low, middle)
    return (low + high) / 2


class NodeProducts(NamedTuple):
    """Σ g_a·g_b of the gaps of observables at the nodes, with weights w or w².

    ``sums`` (pairs of observables, nodes) have both gaps at the same node; ``crossed`` (pairs of two observables, offsets,
    nodes) have the second one some nodes higher.
    """

    sums: HostArray
    crossed: HostArray
    n_observables: int

    def at(self, places: Sequence[float], which: Sequence[int]) -> HostArray:
        """The products of gaps of some observables, by position, each at its own place between the nodes."""
        scales = np.sqrt([self._square(a, place) for place, a in zip(places, which, strict=True)])
        correlations = np.ones((len(which), len(which)))
        for i, j in different_pairs(len(which)):
            first, second = sorted((i, j), key=lambda position: which[position])
            correlation = self._correlation(which[first], which[second], places[first], places[second])
            correlations[i, j] = correlations[j, i] = correlation
        result: HostArray = correlations * np.outer(scales, scales)
        return result

    def _square(self, a: int, place: float) -> float:
        """The sum of the squared gaps of one observable; NaN if it is not known."""
        values = self.sums[pairs(self.n_observables).index((a, a))]
        square, rougher = _through(values, place, _OF_PRODUCTS), _through(values, place, _FEWER)
        # Where few rows or clusters decide, squares may change too fast between nodes for a polynomial.
        return square if square > 0 and abs(square - rougher) <= _CERTAIN * square else nan

    def _correlation(self, a: int, b: int, first: float, second: float) -> float:
        """The correlation between the gaps of two observables at two places.

        It changes slowly, even where both gaps change much. So it is a polynomial in the distance of the two places with the
        same middle. Beyond the offsets that are kept it is that at the farthest one; where none are, that in the middle.
        """
        middle, distance = (first + second) / 2, second - first
        crossed = self.crossed[different_pairs(self.n_observables).index((a, b))]
        inside = 2 * min(middle, self.sums.shape[1] - 1 - middle)
        is_kept = distance != 0 and bool(np.isfinite(crossed).all())
        offsets = [0, *(offset for offset in OFFSETS if is_kept and abs(offset) <= inside)]
        values = [self._correlation_in_line(a, b, middle, offset, crossed) for offset in offsets]
        reach = max(offsets)
        return Polynomial.through(offsets, np.array(values)[:, None])(min(max(distance, -reach), reach))

    def _correlation_in_line(self, a: int, b: int, middle: float, offset: int, crossed: HostArray) -> float:
        """The correlation at two places ``offset`` nodes apart, symmetric around the middle."""
        n_nodes, first, second = self.sums.shape[1], middle - offset / 2, middle + offset / 2
        begin, end = max(0, -offset), n_nodes - max(0, offset)
        line = crossed[OFFSETS.index(offset)] if offset else self.sums[pairs(self.n_observables).index((a, b))]
        product = _through(line[begin:end], first - begin, _OF_PRODUCTS)
        return product / sqrt(self._square(a, first) * self._square(b, second))


def _through(values: HostArray, place: float, number: int) -> float:
    """The polynomial through up to ``number`` values around a place, with equally many on both sides."""
    left = min(max(floor(place), 0), len(values) - 2)
    half = max(min(number // 2, left + 1, len(values) - 1 - left), min(number, _NODES) // 2)
    start = min(max(left + 1 - half, 0), max(len(values) - 2 * half, 0))
    near = np.arange(start, min(start + 2 * half, len(values)))
    return Polynomial.through(near.tolist(), values[near][:, None])(place)


def scores_at(data: Sketch, temperature: float) -> NodeScores:
    """The metrics at a temperature of the range."""
    contents, grid = data.contents, data.grid
    if not grid.holds(temperature):
        low, high = grid.temperatures
        raise InputError(
            "temperature",
            f"lie in the range of the sketch, from {low:.4g} to {high:.4g}",
            got=repr(temperature),
            remedy=f"Make the sketch with a wider range of {setting('temperatures')}.",
        )
    place = min(max(grid.place(-log(temperature)), 0.0), float(len(grid.betas) - 1))
    if abs(place - round(place)) < _AT_A_NODE:
        place = round(place)
    near = grid.nearest(place, _NODES)
    scale = np.array([np.ones(len(grid.betas)), np.array(grid.betas) * grid.step]) / contents.weights[0]
    confidence, brier, nll = (_between((curve * scale).T[near], near, place) for curve in contents.curves)
    left = min(int(place), len(grid.betas) - 2)
    share = place - left
    weight, claimed, correct, squares, misses = (1 - share) * contents.bins[:, left] + share * contents.bins[:, left + 1]
    rows = (sums[None, :] for sums in (weight, claimed, correct, squares))
    bins = Bins(uniform_edges(N_BINS), *rows)
    return NodeScores(confidence, brier, nll, bins, misses, float(contents.weights[1]), data.has_clusters)


def _between(jets: HostArray, near: Sequence[int], place: float) -> float:
    """The polynomial through some means; infinite if they are infinite."""
    return Polynomial.through(near, jets)(place) if np.isfinite(jets).all() else inf


def gap_at_node(data: Sketch, observable: Observable, temperature: float) -> tuple[float, float]:
    """Σw·g of an observable at a node of the grid, and an estimate of the variance of that sum.

    This is Σw²(g − m)² with the mean gap m, or Σw(g − m)² if weights are counts. The first needs Σw²·g, which follows from Σw·g
    if all weights are equal. If they are not, or there are clusters, it is Σw²·g².
    """
    moments, contents, which = moments_of(data, observable), data.contents, data.observables.index(observable)
    nodes = moments.betas
    position = int(np.argmin(np.abs(np.log(np.array(nodes[1:-1]) * temperature)))) + 1
    if abs(nodes[position] * temperature - 1) > _SAME:
        raise InputError(
            "temperature",
            f"be one of the sketch's grid, 1 and factors of 2**(1/{data.grid.per_octave})",
            got=f"{temperature:g}",
            remedy=f"The nearest is {1 / nodes[position]:.17g}.",
        )
    pair = pairs(len(contents.observed)).index((which, which))
    total, squares = float(moments.excess[position]), float(contents.products[pair, 0 if data.counts else 1, position])
    weight, square_weight, number = contents.weights.tolist()
    if data.counts:
        squares -= total**2 / weight
    elif data.n_clusters is None and abs(weight**2 / (number * square_weight) - 1) < _EQUAL_WEIGHTS:
        squares -= total**2 / number
    return total, max(0.0, squares)
