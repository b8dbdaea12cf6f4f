"""The Triton kernels that sum over rows from a few numbers per row: scores, and the sums of a sketch.

A program takes some rows, one per lane, and stores one number for each sum. Those of all programs are added up afterwards, so
that no sum depends on the order in which programs run. All is float64; the formulas are those of native_scores.h and
native_sketch.h.
"""
# Functions for Triton cannot have Python's types.
# mypy: ignore-errors

from __future__ import annotations

from nishimori._kernels.triton_kernels import _jit, tl


@_jit
def _weights_of(weights, row, n, WEIGHTED: tl.constexpr):
    """The weight of each row; 0 after the last one."""
    present = row < n
    weight = present.to(tl.float64)
    if WEIGHTED:
        weight = tl.load(weights + row, mask=present, other=0.0).to(tl.float64)
    return weight


@_jit
def _log1p(x):
    """log(1 + x): the logarithm of what that rounds to, and what was rounded away."""
    u = 1 + x
    return tl.log(u) + (x - (u - 1)) / u


@_jit
def _store_bins(partial, n_programs, places, values, first, n_bins, BINS: tl.constexpr):
    """Store the sums of each of ``values`` over the rows of each of BINS bins."""
    bins = first + tl.arange(0, BINS)
    own = places[:, None] == bins[None, :]
    for i in tl.static_range(len(values)):
        chosen = tl.sum(tl.where(own, values[i][:, None], 0.0), 0)
        tl.store(partial + (bins * len(values) + i) * n_programs, chosen, mask=bins < n_bins)


@_jit
def score_sums(
    scored, answers, weights, near, constants, partial, n, n_bins,
    COUNTS: tl.constexpr, WEIGHTED: tl.constexpr, EDGES: tl.constexpr, BINS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Store the number of rows, of bad rows and of rows near an edge, then the sums of native_scores.h, then those per bin.

    ``constants`` are β, how near a confidence is to an edge that it may be beyond it, and EDGES edges between bins; behind the
    last of these they are infinite.
    """
    program, n_programs, size = tl.program_id(0), tl.cast(tl.num_programs(0), tl.int64), tl.cast(n, tl.int64)
    row = program.to(tl.int64) * ROWS + tl.arange(0, ROWS)
    w = _weights_of(weights, row, n, WEIGHTED)
    there = w != 0  # what other rows hold does not matter
    rest = tl.load(scored + row, mask=there, other=0.0)
    squares = tl.load(scored + size + row, mask=there, other=0.0)
    d = tl.load(scored + 2 * size + row, mask=there, other=0.0)
    answer = tl.load(answers + row, mask=there, other=0)
    beta, right = tl.load(constants), answer == 1
    confidence, true = 1 / (1 + rest), tl.exp(beta * d)
    others = tl.where(right, squares, 1 + squares - true * true) * confidence * confidence
    miss = tl.where(right, rest * confidence, 1 - true * confidence)
    nll = _log1p(rest) - beta * d
    bad = there & ((answer < 0) | ~(tl.abs(nll) < float("inf")))
    hit = right.to(tl.float64)
    scores = (1 - hit, confidence, nll, miss * miss + others)
    edges = tl.load(constants + 2 + tl.arange(0, EDGES))[None, :]
    places = tl.sum((edges < confidence[:, None]).to(tl.int32), 1)
    distance = tl.min(tl.abs(edges - confidence[:, None]), 1)
    close = there & (distance <= tl.load(constants + 1) * confidence)
    tl.store(near + row, close.to(tl.int8), mask=row < n)
    units = w if COUNTS else w * w
    unit = tl.sum(units, 0)
    partial += program
    counts = (there, bad, close)
    for i in tl.static_range(3):
        tl.store(partial + i * n_programs, tl.sum(counts[i].to(tl.float64), 0))
    tl.store(partial + 3 * n_programs, tl.sum(w, 0))
    tl.store(partial + 4 * n_programs, unit)
    for i in tl.static_range(4):
        x = scores[i]
        mean = tl.sum(units * x, 0) / tl.where(unit > 0, unit, 1.0)
        tl.store(partial + (5 + i) * n_programs, tl.sum(w * x, 0))
        tl.store(partial + (9 + i) * n_programs, mean)
        tl.store(partial + (13 + i) * n_programs, tl.sum(units * (x - mean) * (x - mean), 0))
    gap = confidence - hit
    of_bins = (
        w, w * confidence, w * hit, w * w,
        units * gap * gap, units * gap, units * confidence * (1 - confidence),
    )  # fmt: skip
    places = tl.where(there, places, -1)
    for first in range(0, n_bins, BINS):
        _store_bins(partial + 17 * n_programs, n_programs, places, of_bins, first, n_bins, BINS)


@_jit
def _at_node(sums, size, place, row, present):
    """1/Z and the mean drop of each row at one β."""
    start = sums + place * 4 * size + row
    confidence = 1 / (1 + tl.load(start, mask=present, other=0.0))
    return confidence, tl.load(start + size, mask=present, other=0.0) * confidence


@_jit
def node_sums(
    sums, drops, rights, weights, constants, doubled, partial, n, n_nodes, n_bins,
    WEIGHTED: tl.constexpr, BINS: tl.constexpr, FARTHEST: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Store what a sketch keeps of some rows at one β: gaps, metrics, crossed products and bins, as `NodeSums` has them.

    ``sums`` are the power sums (β, 4, n) at 0, at the nodes, at infinity, and then beyond the nodes. ``constants`` are the
    scale of the bins and the β, and ``doubled`` the places of twice each β. Both ends have none, and most of their numbers are
    of no use.
    """
    program, n_programs, place = tl.program_id(0), tl.cast(tl.num_programs(0), tl.int64), tl.program_id(1)
    size = tl.cast(n, tl.int64)
    row = program.to(tl.int64) * ROWS + tl.arange(0, ROWS)
    w = _weights_of(weights, row, n, WEIGHTED)
    there = w != 0
    d = tl.load(drops + row, mask=there, other=0.0)
    right = tl.load(rights + row, mask=there, other=0) != 0
    start = sums + place.to(tl.int64) * 4 * size + row
    rest = tl.load(start, mask=there, other=0.0)
    c, m1 = _at_node(sums, size, place.to(tl.int64), row, there)
    m2 = tl.load(start + 2 * size, mask=there, other=0.0) * c
    m3 = tl.load(start + 3 * size, mask=there, other=0.0) * c
    doubt, hit, v = rest * c, right.to(tl.float64), w * w
    miss, energy = tl.where(right, -doubt, c), m1 - d
    gaps = (
        w * (1 - hit) * c, w * hit * doubt, w * c * m1, w * c * (2 * m1 * m1 - m2),
        w * m1, w * (m2 - m1 * m1), w * (m3 + m1 * (2 * m1 * m1 - 3 * m2)),
        w * miss * miss, w * miss * energy, w * energy * energy,
        v * miss * miss, v * miss * energy, v * energy * energy,
    )  # fmt: skip
    width = 17 + 4 * FARTHEST + 5 * n_bins
    partial += place.to(tl.int64) * width * n_programs + program
    for i in tl.static_range(13):
        tl.store(partial + i * n_programs, tl.sum(gaps[i], 0))
    twice = sums + tl.load(doubled + place).to(tl.int64) * 4 * size + row
    squares, squares_drop = tl.load(twice, mask=there, other=0.0), tl.load(twice + size, mask=there, other=0.0)
    true = tl.exp(tl.load(constants + 1 + place) * d) * c
    others = squares * c * c
    brier = others + tl.where(right, miss * miss, 1 - 2 * true + c * c)
    own = tl.where(right, c * m1 * miss, m1 * c * c + true * (d - m1))  # of the top and the true class
    metrics = (w * c, w * _log1p(rest), w * brier, w * (squares_drop * c * c - m1 * others - own))
    for i in tl.static_range(4):
        tl.store(partial + (13 + i) * n_programs, tl.sum(metrics[i], 0))
    for i in tl.static_range(2 * FARTHEST):
        other = place + (i - FARTHEST if i < FARTHEST else i - FARTHEST + 1)
        is_node = (other >= 1) & (other <= n_nodes)
        _, mean = _at_node(sums, size, other.to(tl.int64), row, there & is_node)
        product = tl.where(is_node, miss * (mean - d), 0.0)
        tl.store(partial + (17 + i) * n_programs, tl.sum(w * product, 0))
        tl.store(partial + (17 + 2 * FARTHEST + i) * n_programs, tl.sum(v * product, 0))
    # A confidence on an edge is in the bin below it.
    scaled = c * tl.load(constants)
    below = scaled.to(tl.int32)
    places = tl.where(there, below - (scaled == below.to(tl.float64)).to(tl.int32), -1)
    of_bins = (w, w * c, w * hit, v, v * miss * miss)
    for first in range(0, n_bins, BINS):
        _store_bins(partial + (17 + 4 * FARTHEST) * n_programs, n_programs, places, of_bins, first, n_bins, BINS)
