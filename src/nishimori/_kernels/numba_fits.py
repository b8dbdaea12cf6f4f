"""The compiled loops of a fit: sums of a pair of observables over all rows, and rows as functions of β.

Nothing has to be checked before: the loops notice logits that are not ordinary numbers when they bring them into the cache.
"""

from math import e, log2
from typing import Any

import numpy as np

from nishimori._kernels.numba_exp import REORDER, compiled_function, exp2, larger, vector_loops
from nishimori._kernels.numba_loops import LANES, NONE, fill_block, scratch_for

N_SUMS = 40

# log2(e) in two parts.
_HIGH, _LOW = log2(e), 2.0355273740931033e-17

# Powers of two beyond this are not float64 numbers.
_FARTHEST = 700.0


@compiled_function(fastmath=REORDER)
def add_rows(ec: Any, ts: Any, right: Any, label_d: Any, weights: Any, total: Any) -> None:  # noqa: PLR0915 - one loop
    """Add the sums of a pair of observables over some rows to ``total``; the formulas are those of `pair_sums`."""
    vector_loops()
    e0 = e1 = e2 = e3 = e4 = e5 = t0 = t1 = t2 = t3 = t4 = t5 = 0.0
    ee = tt = et = eew = ttw = etw = sw = sww = sr = sl = 0.0
    ss = vv = sv = es = tv = ev = xs = svw = esw = tvw = evw = xsw = 0.0
    wrong = right_squares = wrong_squares = n_right = n_at_masks = 0.0
    for i in range(weights.size):
        w, r = weights[i], right[i]
        c = 1.0 / (1.0 + ec[0, i])
        m1, m2, m3 = ec[1, i] * c, ec[2, i] * c, ec[3, i] * c
        gap = -ec[0, i] * c if r else c
        slope = -c * m1
        e0 += w * gap
        e1 += w * abs(gap)
        e2 += w * slope
        e3 += w * c * (2.0 * m1 * m1 - m2)
        e4 += w * c * (6.0 * m1 * (m2 - m1 * m1) - m3)
        e5 += w * w * slope * slope
        c = 1.0 / (1.0 + ts[0, i])
        m1, m2, m3, m4 = ts[1, i] * c, ts[2, i] * c, ts[3, i] * c, ts[4, i] * c
        excess = m1 - label_d[i]
        variance = m2 - m1 * m1
        t0 += w * excess
        t1 += w * (abs(m1) + abs(label_d[i]))
        t2 += w * variance
        t3 += w * (m3 - m1 * m2 - 2.0 * m1 * variance)
        t4 += w * (m4 - 4.0 * m1 * m3 - 3.0 * m2 * m2 + 6.0 * m1 * m1 * (2.0 * m2 - m1 * m1))
        t5 += w * w * variance * variance
        ee += w * gap * gap
        tt += w * excess * excess
        et += w * gap * excess
        eew += w * w * gap * gap
        ttw += w * w * excess * excess
        etw += w * w * gap * excess
        ss += w * slope * slope
        vv += w * variance * variance
        sv += w * slope * variance
        es += w * gap * slope
        tv += w * excess * variance
        ev += w * gap * variance
        xs += w * excess * slope
        svw += w * w * slope * variance
        esw += w * w * gap * slope
        tvw += w * w * excess * variance
        evw += w * w * gap * variance
        xsw += w * w * excess * slope
        sw += w
        sww += w * w
        sr += w * r
        sl += w * label_d[i]
        wrong += w * (1.0 - r)
        right_squares += w * w * r
        wrong_squares += w * w * (1.0 - r)
        n_right += r
        n_at_masks += 1.0 if label_d[i] == -np.inf else 0.0
    ec_and_ts = (e0, e1, e2, e3, e4, e5, t0, t1, t2, t3, t4, t5)
    products = (ee, tt, et, eew, ttw, etw, sw, sww, sr, sl)
    slopes = (ss, vv, sv, es, tv, ev, xs, svw, esw, tvw, evw, xsw)
    values = ec_and_ts + products + slopes + (sr, wrong, right_squares, wrong_squares, n_right, n_at_masks)
    for j in range(N_SUMS):
        total[j] += values[j]


@compiled_function()
def _label_rows(z: Any, labels: Any, begin: Any, n: Any, top: Any, right: Any, label_d: Any) -> None:
    """Whether the top class of each row is true, and how far the logit of its true class lies below the largest.

    Rows that do not count have neither.
    """
    for i in range(n):
        label = labels[begin + i]
        right[i] = label == top[i]
        if top[i] == NONE:
            label_d[i] = 0.0
            continue
        label_d[i] = np.float64(z[begin + i, label]) - np.float64(z[begin + i, top[i]])


@compiled_function()
def fill_total(z: Any, labels: Any, weights: Any, plan: Any, total: Any) -> Any:
    """Add the sums of a pair of observables over all rows to ``total``. Return whether some logit is unusual."""
    n_rows, n_classes = z.shape
    n_betas = plan[1].size - 1
    sums, top = np.empty((n_betas, 5, LANES)), np.empty(LANES, np.int64)
    right, label_d = np.empty(LANES), np.empty(LANES)
    scratch = scratch_for(n_classes, 5, plan[0])
    is_unusual = False
    for start in range(0, n_rows, LANES):
        n = min(LANES, n_rows - start)
        is_unusual |= fill_block(z, start, n, weights, plan, scratch, top, sums, 0)
        _label_rows(z, labels, start, n, top, right, label_d)
        add_rows(sums[0], sums[n_betas - 1], right, label_d, weights[start : start + n], total)
    return is_unusual


# --- rows as functions of β ------------------------------------------------------------------------------------------------


@compiled_function(fastmath=REORDER)
def store_cumulants(sums: Any, n: Any, rest: Any, cumulants: Any, at: Any) -> None:
    """The rest R of each row and the six cumulants of d in it, from its power sums; see `nishimori._fit.expansion`."""
    vector_loops()
    begin = np.uint64(at)
    for i in range(n):
        j = begin + np.uint64(i)
        r = sums[0, i]
        share = 1.0 / (r if r > 0.0 else 1.0)
        m1, m2, m3 = sums[1, i] * share, sums[2, i] * share, sums[3, i] * share
        m4, m5, m6 = sums[4, i] * share, sums[5, i] * share, sums[6, i] * share
        k2 = m2 - m1 * m1
        k3 = m3 - m1 * m2 - 2.0 * k2 * m1
        k4 = m4 - m1 * m3 - 3.0 * k2 * m2 - 3.0 * k3 * m1
        k5 = m5 - m1 * m4 - 4.0 * k2 * m3 - 6.0 * k3 * m2 - 4.0 * k4 * m1
        rest[j] = r
        cumulants[0, j], cumulants[1, j], cumulants[2, j] = m1, k2, k3
        cumulants[3, j], cumulants[4, j] = k4, k5
        cumulants[5, j] = m6 - m1 * m5 - 5.0 * k2 * m4 - 10.0 * k3 * m3 - 10.0 * k4 * m2 - 5.0 * k5 * m1


@compiled_function()
def fill_expansion(z: Any, labels: Any, weights: Any, plan: Any, columns: Any) -> Any:
    """Fill ``columns``, as of `RowsNearBeta`, at one β. Return as `fill_total`."""
    rest, cumulants, drops, right = columns
    n_rows, n_classes = z.shape
    sums, top = np.empty((1, 7, LANES)), np.empty(LANES, np.int64)
    scratch = scratch_for(n_classes, 7, plan[0])
    is_unusual = False
    for start in range(0, n_rows, LANES):
        n = min(LANES, n_rows - start)
        is_unusual |= fill_block(z, start, n, weights, plan, scratch, top, sums, 0)
        _label_rows(z, labels, start, n, top, right[start : start + n], drops[start : start + n])
        store_cumulants(sums[0], n, rest, cumulants, start)
    return is_unusual


@compiled_function()
def _powers_after(rest: Any, cumulants: Any, at: Any, n: Any, step: Any, powers: Any) -> None:
    """R and its first four derivatives in β, a step away."""
    vector_loops()
    begin = np.uint64(at)
    t1, t2, t3 = step, step**2 / 2.0, step**3 / 6.0
    t4, t5, t6 = step**4 / 24.0, step**5 / 120.0, step**6 / 720.0
    for i in range(n):
        j = begin + np.uint64(i)
        k1, k2, k3 = cumulants[0, j], cumulants[1, j], cumulants[2, j]
        k4, k5, k6 = cumulants[3, j], cumulants[4, j], cumulants[5, j]
        log = k1 * t1 + k2 * t2 + k3 * t3 + k4 * t4 + k5 * t5 + k6 * t6
        first = k1 + k2 * t1 + k3 * t2 + k4 * t3 + k5 * t4 + k6 * t5
        second = k2 + k3 * t1 + k4 * t2 + k5 * t3 + k6 * t4
        third = k3 + k4 * t1 + k5 * t2 + k6 * t3
        fourth = k4 + k5 * t1 + k6 * t2
        r = rest[j] * exp2(-larger(-larger(log, -_FARTHEST), -_FARTHEST), _HIGH, _LOW)
        square = first * first
        powers[0, i] = r
        powers[1, i] = r * first
        powers[2, i] = r * (second + square)
        powers[3, i] = r * (third + first * (3.0 * second + square))
        powers[4, i] = r * (fourth + 4.0 * first * third + 3.0 * second * second + square * (6.0 * second + square))


@compiled_function(fastmath=REORDER)
def _last_orders(ec: Any, ts: Any, last: Any, steps: Any, weights: Any, total: Any) -> None:
    """Add by how much the last cumulant changes confidences, and mean drops; see `nishimori._fit.expansion`."""
    vector_loops()
    ec_in_log, ts_in_log = abs(steps[0] ** 6 / 720.0), abs(steps[1] ** 6 / 720.0)
    ts_in_slope = abs(steps[1] ** 5 / 120.0)
    in_confidence = in_energy = 0.0
    for i in range(weights.size):
        size = abs(last[i]) * weights[i]
        top = 1.0 / (1.0 + ec[0, i])
        in_confidence += size * ec_in_log * top * top * ec[0, i]
        top = 1.0 / (1.0 + ts[0, i])
        in_energy += size * (ts_in_slope * ts[0, i] * top + ts_in_log * abs(ts[1, i]) * top * top)
    total[N_SUMS] += in_confidence
    total[N_SUMS + 1] += in_energy


@compiled_function()
def fill_expanded_total(columns: Any, weights: Any, steps: Any, total: Any) -> None:
    """Add the sums of a pair of observables over expanded rows, a step away for each, and what the last cumulant changes."""
    rest, cumulants, drops, right = columns
    sums, is_right = np.empty((2, 5, LANES)), np.empty(LANES)
    other = 0 if steps[0] == steps[1] else 1
    for start in range(0, weights.size, LANES):
        n = min(LANES, weights.size - start)
        for b in range(other + 1):
            _powers_after(rest, cumulants, start, n, steps[b], sums[b])
        end = start + n
        is_right[:n] = right[start:end]
        add_rows(sums[0], sums[other], is_right, drops[start:end], weights[start:end], total)
        _last_orders(sums[0], sums[other], cumulants[5, start:end], steps, weights[start:end], total)
