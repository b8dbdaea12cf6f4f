"""Nodes and weights for integrals over Gaussians, and roots and slopes of functions of one variable."""

from collections.abc import Callable, Mapping
from functools import cache
from math import ceil, log2, pi, sqrt
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

from nishimori.errors import NotConvergedError

Array = np.ndarray[Any, Any]

# Sixteen Gauss-Legendre points per panel: exact for polynomials of degree 31.
_ORDER = 16

# With this many nodes the averages of the logit teacher at all of them take a second and half a gigabyte.
_MOST_NODES = 300_000

# Beyond nine standard deviations a Gaussian holds less than 1e-18.
REACH = 9.0


@cache
def _legendre() -> tuple[Array, Array]:
    points, weights = np.polynomial.legendre.leggauss(_ORDER)
    return (1 + points) / 2, weights / 2


def composite(edges: Array) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights in each panel between neighbouring ``edges``, along their last axis."""
    points, weights = _legendre()
    start, length = edges[..., :-1, None], np.diff(edges)[..., None]
    flat = (*edges.shape[:-1], (edges.shape[-1] - 1) * _ORDER)
    return (start + length * points).reshape(flat), (length * weights).reshape(flat)


def subdivide(ends: Array, parts: int) -> Array:
    """Edges of ``parts`` equal panels in each interval between neighbouring ``ends``, along their last axis."""
    fractions = np.arange(parts) / parts
    inner = ends[..., :-1, None] + np.diff(ends)[..., None] * fractions
    flat = (*ends.shape[:-1], (ends.shape[-1] - 1) * parts)
    return np.concatenate([inner.reshape(flat), ends[..., -1:]], axis=-1)


def normal(x: Array) -> Array:
    """Density of the standard normal."""
    density: Array = np.exp(-0.5 * x * x) * 0.3989422804014327  # 1/√(2π)
    return density


def expected_excess(x: Array) -> Array:
    """E max(x + ξ, 0) = xΦ(x) + φ(x), to full relative precision where x is far below zero and the two terms cancel."""
    far = np.minimum(x, 0.0)
    # 1 - |x| times Mills' ratio. Where this cancels too, use its series (-1)^k (2k+1)!!/x^(2k+2).
    ratio = 1 + far * sqrt(pi / 2) * erfcx(-far / sqrt(2))
    y = 1 / np.maximum(far * far, 400.0)
    series = y * (1 - y * (3 - y * (15 - y * (105 - y * 945))))
    tail = normal(far) * np.where(far < -40, series, ratio)
    return np.asarray(np.where(x < 0, tail, x * ndtr(x) + normal(x)))


def nodes(length: float, step: float) -> int:
    """The number of steps that cover ``length``, or an error if this many nodes would take too much memory."""
    if not length <= _MOST_NODES * step:
        raise NotConvergedError(
            f"The integrals would need more than {_MOST_NODES} points, because the classifier is almost identical to the "
            "teacher. Choose less extreme values."
        )
    return max(1, ceil(length / step))


def half_line(longest: float, finest: float) -> Array:
    """Edges of panels from 0 to `REACH` that double in length from ``finest`` until they are as long as ``longest``."""
    nodes(_ORDER * REACH, longest)
    doubling = finest * 2.0 ** np.arange(max(1, ceil(log2(longest / finest))))
    last = float(doubling[-1])
    return np.concatenate([[0.0], doubling[:-1], np.linspace(last, REACH, 2 + int((REACH - last) / longest))])


def mean_absolute(gap: Callable[[Array], Array], edges: Array) -> float:
    """E |gap(|s|)| over a standard normal s, split where the gap changes sign, so that each piece is smooth."""
    s, _ = composite(edges)
    signs = np.sign(gap(s))
    ends = [(s[i], s[i + 1]) for i in np.flatnonzero(signs[1:] * signs[:-1] < 0)]

    def at(x: float) -> float:
        return float(gap(np.array(x)))

    # Where the gap is only a rounding error, its sign is random and may differ between evaluations.
    roots = [brentq(at, low, high, xtol=1e-13) for low, high in ends if at(low) * at(high) < 0]
    s, weight = composite(np.sort(np.concatenate([edges, roots])))
    return float(2 * (weight * normal(s)) @ np.abs(gap(s)))


def bracketed_root(function: Callable[[float], float], values: Mapping[float, float]) -> float:
    """The root between two arguments; ``values`` has those of ``function`` there, of different signs."""
    low, high = sorted(values)
    return float(brentq(lambda x: values[x] if x in values else function(x), low, high, xtol=1e-11))


def slope_at_zero(function: Callable[[float], Any]) -> Any:
    """Derivative at zero by differences of fourth order, accurate to about 1e-12."""
    h = 1e-3
    return (8 * (function(h) - function(-h)) - (function(2 * h) - function(-2 * h))) / (12 * h)
