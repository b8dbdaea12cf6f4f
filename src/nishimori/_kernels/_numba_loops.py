"""The compiled loops of the Numba kernel.

The sums of a row are Σ_k d_k^j exp(β d_k) with d_k = z_k - max(z). Every loop works on a small buffer in the first-level cache
and is written such that the compiler turns it into vector instructions. With many classes the lanes of a vector are columns of
one row; with few classes a block of rows is transposed and the lanes are rows.
"""

from typing import Any

import numpy as np

from nishimori._kernels._numba_exp import REORDER, compiled_function, exp2, larger, vector_loops

# Number of columns whose float32 sums are added before they go into a float64 sum. A vector has at least 4 lanes, so one
# float32 accumulator takes at most 128 numbers.
_CHUNK = 512

# Up to this many bytes per row (128 classes in float32) the lanes of a vector are rows, and this is the number of rows that are
# transposed at a time: nine lines of the cache, because columns at distances of a power of two would all compete for the same
# few places in it.
_FEW = 512
_LANES = 144

N_SUMS = 28


# --- loops over buffers ----------------------------------------------------------------------------------------------------
# Loops take whole arrays and offsets: each slice would count references, which takes as long as a hundred additions. Offsets
# are unsigned, because Numba would check a signed sum for negative indices, and this prevents vectors.


@compiled_function()
def _weigh(d: Any, n: Any, terms: Any, c: Any, y: Any, w: Any) -> None:
    """The scaled differences ``y`` and weights ``w`` of ``d``."""
    vector_loops()
    scale, high, low, smallest = terms[c, 0], terms[c, 1], terms[c, 2], terms[c, 3]
    for i in range(n):
        x = larger(d[i] * scale, smallest)
        y[i] = x
        w[i] = exp2(x, high, low)


@compiled_function()
def _square(w: Any, n: Any) -> None:
    """Weights at twice the β. Squares that would be subnormal, and therefore slow, become 0."""
    vector_loops()
    for i in range(n):
        x = w[i]
        w[i] = x * x if x > 2.0**-510 else 0.0


@compiled_function(fastmath=REORDER)
def _sum_columns(y: Any, w: Any, n: Any, result: Any) -> None:
    """Σ y^j w for j = 0 ... 4, and to 6 if ``result`` is that long."""
    vector_loops()
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = y[0] - y[0]
    for i in range(n):
        y2 = y[i] * y[i]
        w2 = w[i] * y2
        a0 += w[i]
        a1 += w[i] * y[i]
        a2 += w2
        a3 += w2 * y[i]
        a4 += w2 * y2
    result[0], result[1], result[2], result[3], result[4] = a0, a1, a2, a3, a4
    if result.size > 5:
        for i in range(n):
            y2 = y[i] * y[i]
            w4 = w[i] * y2 * y2
            a5 += w4 * y[i]
            a6 += w4 * y2
        result[5], result[6] = a5, a6


@compiled_function(fastmath=REORDER)
def _weigh_and_sum_columns(d: Any, n: Any, terms: Any, c: Any, result: Any) -> None:
    """All seven sums in one loop, which the fit spends its time in when there are many classes."""
    vector_loops()
    scale, high, low, smallest = terms[c, 0], terms[c, 1], terms[c, 2], terms[c, 3]
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = scale - scale
    for i in range(n):
        y = larger(d[i] * scale, smallest)
        w = exp2(y, high, low)
        y2 = y * y
        w2 = w * y2
        w4 = w2 * y2
        a0 += w
        a1 += w * y
        a2 += w2
        a3 += w2 * y
        a4 += w4
        a5 += w4 * y
        a6 += w4 * y2
    result[0], result[1], result[2], result[3], result[4], result[5], result[6] = a0, a1, a2, a3, a4, a5, a6


# The lanes of several powers are in one array, at constant distances: of separate arrays the compiler would have to prove that
# they do not overlap.


@compiled_function(fastmath=REORDER)
def _sum_lanes(y: Any, w: Any, n_classes: Any, result: Any) -> None:
    """Σ y^j w of each lane, for j = 0 ... 4, and to 6 if ``result`` is that long."""
    vector_loops()
    n = _LANES
    result[:] = 0
    for k in range(n_classes):
        for i in range(n):
            x, v = y[k * n + i], w[k * n + i]
            x2 = x * x
            v2 = v * x2
            result[i] += v
            result[n + i] += v * x
            result[2 * n + i] += v2
            result[3 * n + i] += v2 * x
            result[4 * n + i] += v2 * x2
    if result.size > 5 * n:
        for k in range(n_classes):
            for i in range(n):
                x = y[k * n + i]
                x2 = x * x
                v4 = w[k * n + i] * x2 * x2
                result[5 * n + i] += v4 * x
                result[6 * n + i] += v4 * x2


@compiled_function(fastmath=REORDER)
def _weigh_and_sum_lanes(d: Any, n_classes: Any, terms: Any, c: Any, result: Any) -> None:
    """The first five sums in one loop, which the fit spends its time in when there are few classes."""
    vector_loops()
    n = _LANES
    scale, high, low, smallest = terms[c, 0], terms[c, 1], terms[c, 2], terms[c, 3]
    result[:] = 0
    for k in range(n_classes):
        for i in range(n):
            y = larger(d[k * n + i] * scale, smallest)
            w = exp2(y, high, low)
            y2 = y * y
            w2 = w * y2
            result[i] += w
            result[n + i] += w * y
            result[2 * n + i] += w2
            result[3 * n + i] += w2 * y
            result[4 * n + i] += w2 * y2


# --- many classes: lanes are columns ---------------------------------------------------------------------------------------


@compiled_function()
def _first_maximum(z: Any, i: Any) -> Any:
    """The maximum of row ``i`` and its first column. This loop brings the row into the cache."""
    vector_loops()
    n_classes = z.shape[1]
    largest, begin = z[i, 0], 0
    for start in range(0, n_classes, _CHUNK):
        offset = np.uint64(start)
        here = z[i, offset]
        for k in range(min(_CHUNK, n_classes - start)):
            here = larger(here, z[i, offset + np.uint64(k)])
        if here > largest:
            largest, begin = here, start
    offset = np.uint64(begin)
    place = np.int32(_CHUNK)
    for k in range(min(_CHUNK, n_classes - begin)):
        place = min(place, np.int32(k) if z[i, offset + np.uint64(k)] == largest else np.int32(_CHUNK))
    return largest, begin + place


@compiled_function()
def _subtract(z: Any, i: Any, start: Any, largest: Any, top: Any, d: Any) -> Any:
    """Fill ``d`` with one chunk of the differences, without the top class; return its length, padded to whole vectors."""
    vector_loops()
    offset = np.uint64(start)
    n = min(_CHUNK, z.shape[1] - start)
    for k in range(n):
        d[k] = z[i, offset + np.uint64(k)] - largest
    padded = (n + 15) // 16 * 16
    for k in range(n, padded):
        d[k] = -np.inf
    if start <= top < start + padded:
        d[top - start] = -np.inf
    return padded


@compiled_function()
def _by_columns(z: Any, begin: Any, n_rows: Any, plan: Any, scratch: Any, top: Any, sums: Any, at: Any) -> None:
    vector_loops()
    terms, chains, places, factors = plan
    d, y, w, parts, _, _ = scratch
    n_betas, n_powers, _ = sums.shape
    for i in range(n_rows):
        largest, top[at + i] = _first_maximum(z, begin + i)
        for b in range(n_betas):
            for j in range(n_powers):
                sums[b, j, at + i] = 0.0
        for start in range(0, z.shape[1], _CHUNK):
            n = _subtract(z, begin + i, start, d.dtype.type(largest), top[at + i], d)
            for c in range(chains.size - 1):
                single = chains[c] + 1 == chains[c + 1] and n_powers > 5
                if not single:
                    _weigh(d, n, terms, c, y, w)
                for b in range(chains[c], chains[c + 1]):
                    if b > chains[c]:
                        _square(w, n)
                    if single:
                        _weigh_and_sum_columns(d, n, terms, c, parts)
                    else:
                        _sum_columns(y, w, n, parts)
                    for j in range(n_powers):
                        sums[places[b], j, at + i] += parts[j] * factors[b, j]


# --- few classes: lanes are rows -------------------------------------------------------------------------------------------


@compiled_function()
def _transpose(z: Any, begin: Any, n_rows: Any, columns: Any) -> None:
    """Rows as columns; four at a time halves the time. The last lanes repeat a row if there are too few."""
    vector_loops()
    last = begin + n_rows - 1
    for i in range(0, _LANES, 4):
        a, b = min(begin + i, last), min(begin + i + 1, last)
        c, d = min(begin + i + 2, last), min(begin + i + 3, last)
        for k in range(z.shape[1]):
            columns[k * _LANES + i] = z[a, k]
            columns[k * _LANES + i + 1] = z[b, k]
            columns[k * _LANES + i + 2] = z[c, k]
            columns[k * _LANES + i + 3] = z[d, k]


@compiled_function()
def _subtract_lanes(columns: Any, n_classes: Any, largest: Any, place: Any) -> None:
    """The maximum of each lane and its first class; subtract it and leave this class out."""
    vector_loops()
    for i in range(_LANES):
        largest[i], place[i] = columns[i], 0
    for k in range(1, n_classes):
        for i in range(_LANES):
            new, old, old_place = columns[k * _LANES + i], largest[i], place[i]
            largest[i] = new if new > old else old
            place[i] = np.int32(k) if new > old else old_place
    for k in range(n_classes):
        for i in range(_LANES):
            columns[k * _LANES + i] -= largest[i]
    for i in range(_LANES):
        columns[place[i] * _LANES + i] = -np.inf


@compiled_function()
def _store_lanes(parts: Any, factors: Any, b: Any, n: Any, sums: Any, place: Any, at: Any) -> None:
    """Undo the scale and store the lanes that are rows."""
    vector_loops()
    for j in range(sums.shape[1]):
        factor = factors[b, j]
        for i in range(n):
            sums[place, j, np.uint64(at) + np.uint64(i)] = parts[j * _LANES + i] * factor


@compiled_function()
def _by_rows(z: Any, begin: Any, n_rows: Any, plan: Any, scratch: Any, top: Any, sums: Any, at: Any) -> None:
    vector_loops()
    terms, chains, places, factors = plan
    d, y, w, parts, largest, place = scratch
    n_classes, n_powers = z.shape[1], sums.shape[1]
    _transpose(z, begin, n_rows, d)
    _subtract_lanes(d, n_classes, largest, place)
    for i in range(n_rows):
        top[at + i] = place[i]
    for c in range(chains.size - 1):
        single = chains[c] + 1 == chains[c + 1] and n_powers <= 5
        if not single:
            _weigh(d, n_classes * _LANES, terms, c, y, w)
        for b in range(chains[c], chains[c + 1]):
            if b > chains[c]:
                _square(w, n_classes * _LANES)
            if single:
                _weigh_and_sum_lanes(d, n_classes, terms, c, parts)
            else:
                _sum_lanes(y, w, n_classes, parts)
            _store_lanes(parts, factors, b, n_rows, sums, places[b], at)


# --- both layouts ----------------------------------------------------------------------------------------------------------


@compiled_function()
def _are_few(n_classes: Any, terms: Any) -> Any:
    return n_classes * terms.itemsize <= _FEW


@compiled_function()
def _aligned(size: Any, dtype: Any) -> Any:
    """An empty array that starts with a line of the cache; vectors across two lines take twice as long."""
    bytes_ = np.empty(8 * size + 64, np.uint8)
    start = -bytes_.ctypes.data % 64
    return bytes_[start : start + 8 * size].view(dtype)[:size]


@compiled_function()
def _scratch(n_classes: Any, n_powers: Any, terms: Any) -> Any:
    """Buffers for differences, weights and sums."""
    dtype = terms.dtype
    few = _are_few(n_classes, terms)
    size = n_classes * _LANES if few else _CHUNK
    d, y, w = _aligned(size, dtype), _aligned(size, dtype), _aligned(size, dtype)
    parts = _aligned((5 if n_powers <= 5 else 7) * (_LANES if few else 1), dtype)
    return d, y, w, parts, _aligned(_LANES, dtype), _aligned(_LANES, np.int32)


@compiled_function()
def _fill_block(z: Any, begin: Any, n_rows: Any, plan: Any, scratch: Any, top: Any, sums: Any, at: Any) -> None:
    """Fill ``top`` and ``sums`` (betas, powers, n) from ``at`` on with what at most `_LANES` rows from ``begin`` on give."""
    if _are_few(z.shape[1], plan[0]):
        _by_rows(z, begin, n_rows, plan, scratch, top, sums, at)
    else:
        _by_columns(z, begin, n_rows, plan, scratch, top, sums, at)


@compiled_function()
def fill(z: Any, plan: Any, top: Any, sums: Any) -> None:
    """Fill ``top`` (n,) and ``sums`` (betas, powers, n)."""
    scratch = _scratch(z.shape[1], sums.shape[1], plan[0])
    for start in range(0, z.shape[0], _LANES):
        _fill_block(z, start, min(_LANES, z.shape[0] - start), plan, scratch, top, sums, start)


@compiled_function(fastmath=REORDER)
def _add_rows(ec: Any, ts: Any, right: Any, label_d: Any, weights: Any, total: Any) -> None:
    """Add the sums of a block of rows to ``total``; the formulas are those of `nishimori._pairs`."""
    vector_loops()
    e0 = e1 = e2 = e3 = e4 = e5 = t0 = t1 = t2 = t3 = t4 = t5 = 0.0
    ee = tt = et = eew = ttw = etw = sw = sww = sr = sl = 0.0
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
    values = ec_and_ts + products + (sr, wrong, right_squares, wrong_squares, n_right, n_at_masks)
    for j in range(N_SUMS):
        total[j] += values[j]


@compiled_function()
def fill_total(z: Any, labels: Any, weights: Any, plan: Any, total: Any) -> None:
    """Add the sums of a pair of observables over all rows to ``total``."""
    n_betas = plan[1].size - 1
    sums, top = np.empty((n_betas, 5, _LANES)), np.empty(_LANES, np.int64)
    right, label_d = np.empty(_LANES), np.empty(_LANES)
    scratch = _scratch(z.shape[1], 5, plan[0])
    for start in range(0, z.shape[0], _LANES):
        n = min(_LANES, z.shape[0] - start)
        _fill_block(z, start, n, plan, scratch, top, sums, 0)
        for i in range(n):
            label = labels[start + i]
            right[i] = label == top[i]
            label_d[i] = np.float64(z[start + i, label]) - np.float64(z[start + i, top[i]])
        _add_rows(sums[0], sums[n_betas - 1], right, label_d, weights[start : start + n], total)
